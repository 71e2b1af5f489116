// pg-boss: a worker takes and completes `batch` jobs a call, fetching on while batches are full; `workers` of them
// run at once in the process, over as many connections.

import { PgBoss } from "pg-boss";
import { connection, main } from "./common.mjs";

const QUEUE = "noop";

async function started(url, { connections = 1, ...options } = {}) {
  const boss = new PgBoss({ ...connection(url), max: connections, supervise: false, schedule: false, ...options });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

await main({
  async install(url) {
    const boss = await started(url);
    await boss.createQueue(QUEUE);
    await boss.stop();
  },

  async enqueue(url, { count, batch, watch }) {
    const boss = await started(url);
    const rows = Array.from({ length: batch }, () => ({ data: {} }));
    await watch.open();
    watch.start();
    for (let sent = 0; sent < count; sent += batch) await boss.insert(QUEUE, rows);
    watch.mark();
    await boss.stop();
    return count;
  },

  async drain(url, { count, batch, workers, watch }) {
    const boss = await started(url, { connections: workers });
    let done = 0;
    let end;
    const ended = new Promise((resolve) => (end = resolve));
    const db = boss.getDb();
    const executeSql = db.executeSql.bind(db);
    db.executeSql = async (text, ...rest) => {
      const result = await executeSql(text, ...rest);
      if (text.includes("completed_on = ")) {
        done += Number(result.rows[0].count);
        watch.mark();
        if (done === count) end();
      } else if (text.includes("SKIP LOCKED") && result.rows.length === 0) end();
      return result;
    };
    await watch.open();
    watch.start();
    const options = { batchSize: batch, localConcurrency: workers, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
    await boss.work(QUEUE, options, async () => {});
    await ended;
    await boss.stop();
    return done;
  },
});
