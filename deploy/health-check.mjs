/** Exits 0 if the process in this container answers /livez: a worker on WORKER_PORT, else the API. */
const port = process.env.WORKER_PORT || process.env.PORT || '8000';
const signal = AbortSignal.timeout(3_000);
const healthy = await fetch(`http://127.0.0.1:${port}/livez`, { signal }).then(
  (response) => response.ok,
  () => false,
);
process.exit(healthy ? 0 : 1);
