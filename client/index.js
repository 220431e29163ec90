/** Requests of one call, the first included. */
const maxTries = 4;
/** A service may ask to wait, but not for ever. */
const longestWaitSeconds = 60;

/** @type {typeof import('./index.js').createClient} */
export function createClient({ url, key, fetch: send = globalThis.fetch }) {
  const base = url.replace(/\/+$/, '');

  async function call(method, path, { params = {}, body, headers = {}, signal } = {}) {
    const request = {
      method,
      // The key must not follow a redirect to another address.
      redirect: 'manual',
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(method === 'POST' ? { 'idempotency-key': crypto.randomUUID() } : {}),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    };
    const address = base + fill(path, params.path) + search(params.query);
    for (let tries = 1; ; tries += 1) {
      const response = await send(address, request);
      const wait = response.headers.get('retry-after');
      const isBusy = response.status === 429 || response.status === 503;
      const mayRetry = isBusy && wait !== null && Number(wait) <= longestWaitSeconds;
      if (!mayRetry || tries === maxTries) return read(response);
      await response.body?.cancel();
      await pause(Number(wait) * 1000, signal);
    }
  }

  const methodOf = (method) => (path, init) => call(method, path, init);
  return {
    GET: methodOf('GET'),
    POST: methodOf('POST'),
    PUT: methodOf('PUT'),
    PATCH: methodOf('PATCH'),
    DELETE: methodOf('DELETE'),
  };
}

function fill(path, values = {}) {
  return path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name]));
}

function search(query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) {
      if (one !== undefined && one !== null) parameters.append(name, String(one));
    }
  }
  return parameters.size === 0 ? '' : `?${parameters}`;
}

async function read(response) {
  const text = await response.text();
  const json = parse(text);
  if (response.ok) return { data: json, response };
  return { error: typeof json?.detail === 'string' ? json : notSluice(response), response };
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** A proxy, or another program at the address. */
function notSluice({ status, url }) {
  const detail = `The answer is not of Sluice (status ${status}). Check the address: ${url}`;
  const problem = { type: 'server_error', code: 'error', detail, attr: null };
  return { ...problem, errors: [problem], request_id: '' };
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}
