// The protocol of bench/child.py, for contenders in Node: node SCRIPT OPERATION URL name=value …

export class Watch {
  #began = null;
  #ended = null;
  #cpu = 0;

  // Report that all connections are open, and wait for the gate.
  async open() {
    process.stdout.write("ready\n");
    await new Promise((resolve) => process.stdin.once("data", resolve));
    process.stdin.destroy();
  }

  start() {
    if (this.#began !== null) return;
    this.#cpu = cpu();
    this.#began = now();
  }

  mark() {
    this.#ended = now();
  }

  result(count) {
    const ended = this.#ended ?? now();
    return { count, began: this.#began ?? ended, ended, cpu: cpu() - this.#cpu };
  }
}

// Seconds of the clock that Python's perf_counter reads, too.
const now = () => Number(process.hrtime.bigint()) / 1e9;

const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

// What pg needs to connect through the socket of an embedded server.
export function connection(url) {
  const [, user, database, host] = url.match(/^postgresql:\/\/([^@]*)@\/([^?]*)\?host=(.*)$/);
  return { user, database: decodeURIComponent(database), host: decodeURIComponent(host) };
}

export async function main(operations) {
  const [operation, url, ...named] = process.argv.slice(2);
  const options = Object.fromEntries(
    named.map((option) => {
      const at = option.indexOf("=");
      return [option.slice(0, at), JSON.parse(option.slice(at + 1))];
    }),
  );
  const watch = new Watch();
  const count = await operations[operation](url, { ...options, watch });
  if (operation !== "install") process.stdout.write(JSON.stringify(watch.result(count)) + "\n");
}
