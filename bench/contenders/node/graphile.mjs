// graphile-worker: `jobs` at once, a local queue that fetches `batch` jobs a call (0: each job is fetched alone), and
// completions that are sent together after `delay` ms (-1: each alone).

import { makeWorkerUtils, run } from "graphile-worker";
import { Logger } from "graphile-worker";
import pg from "pg";
import { connection, main } from "./common.mjs";

const QUIET = new Logger(() => () => {});

await main({
  async install(url) {
    const pgPool = new pg.Pool(connection(url));
    const utils = await makeWorkerUtils({ pgPool, logger: QUIET });
    await utils.migrate();
    await utils.release();
    await pgPool.end();
  },

  async enqueue(url, { count, batch, watch }) {
    const pgPool = new pg.Pool({ ...connection(url), max: 1 });
    const utils = await makeWorkerUtils({ pgPool, logger: QUIET });
    const specs = Array.from({ length: batch }, () => ({ identifier: "noop", payload: {} }));
    await watch.open();
    watch.start();
    for (let sent = 0; sent < count; sent += batch) await utils.addJobs(specs);
    watch.mark();
    await utils.release();
    await pgPool.end();
    return count;
  },

  async drain(url, { count, jobs, queue, delay, connections, watch }) {
    const pgPool = new pg.Pool({ ...connection(url), max: connections });
    pgPool.on("error", () => {});
    let done = 0;
    let end;
    const ended = new Promise((resolve) => (end = resolve));
    pgPool.on("connect", (client) => {
      const query = client.query.bind(client);
      client.query = (...given) => {
        const text = given[0]?.text ?? given[0];
        const answer = query(...given);
        if (typeof text !== "string" || !answer?.then) return answer;
        if (/^\s*delete from \S+_private_jobs/.test(text)) {
          return answer.then((result) => {
            done += result.rowCount;
            watch.mark();
            if (done === count) end();
            return result;
          });
        }
        if (!/skip locked/i.test(text)) return answer;
        return answer.then((result) => {
          if (result.rows.length === 0) end();
          return result;
        });
      };
    });
    await Promise.all(Array.from({ length: connections }, () => pgPool.query("select 1")));
    const worker = { concurrentJobs: jobs, pollInterval: 2000, completeJobBatchDelay: delay };
    if (queue) worker.localQueue = { size: queue };
    await watch.open();
    watch.start();
    const runner = await run({
      pgPool,
      logger: QUIET,
      noHandleSignals: true,
      taskList: { noop: async () => {} },
      preset: { worker },
    });
    await ended;
    await runner.stop();
    await pgPool.end();
    return done;
  },
});
