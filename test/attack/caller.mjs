// A process of its own, so that what the attacker computes in the test is not taken for the service's time.
// Input: one line of JSON. Output: one line of JSON, { calls: [ms…], faults: [text…] }.
import { setTimeout as sleep } from 'node:timers/promises';

const { baseUrl, key, project, exportId, everyMs, forMs } = JSON.parse(process.argv[2] ?? '');
const exportsUrl = `${baseUrl}${project}/batch_exports/`;
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
const calls = [];
const faults = [];

async function send(method, url, body) {
  const response = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${response.status} ${text.slice(0, 300)}`);
  return text;
}

const noOp = { interval: 'day', paused: true, destination: { type: 'NoOp', config: {} } };
const kinds = [
  () => send('GET', exportsUrl),
  () => send('GET', `${exportsUrl}${exportId}/`),
  () => send('GET', `${exportsUrl}${exportId}/runs/`),
  () => send('POST', exportsUrl, { ...noOp, name: 'One of many' }),
];

async function call(n) {
  const startedAt = performance.now();
  try {
    const text = await kinds[n % kinds.length]();
    calls.push(performance.now() - startedAt);
    if (n % kinds.length === 3) {
      const { id } = JSON.parse(text);
      await fetch(`${exportsUrl}${id}/`, {
        method: 'DELETE',
        headers: { authorization: headers.authorization },
      });
    }
  } catch (error) {
    calls.push(performance.now() - startedAt);
    faults.push(`${error} ${error.cause?.code ?? ''}`);
  }
}

// At a steady rate, however slow the answers are: else a slow answer would hide the next ones.
const pending = [];
const beganAt = performance.now();
for (let n = 0; performance.now() - beganAt < forMs; n += 1) {
  pending.push(call(n));
  await sleep(Math.max(0, beganAt + (n + 1) * everyMs - performance.now()));
}
await Promise.all(pending);
console.log(JSON.stringify({ calls, faults }));
