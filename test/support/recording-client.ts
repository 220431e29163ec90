import { type ApiAnswer, type ApiClient, createApiClient, type WireBody } from './api-client.ts';

/** What the API has answered to whom, and what it has promised by a 2xx. */
export interface Recording {
  readonly answers: readonly { readonly key: string | null; readonly text: string }[];
  /**
   * I6: asks again for each resource that was created, changed or deleted with a 2xx.
   *
   * @returns what is not as it was answered
   */
  findLostWrites(): Promise<readonly string[]>;
}

/** What a resource was last answered to be; null: it was deleted. */
type Known = Partial<WireBody> | null;

interface Promised {
  readonly client: ApiClient;
  known: Known;
  readonly backfillIds: string[];
}

/** Fields that only the client sets and changes. */
const settings = ['name', 'interval', 'start_at', 'end_at', 'dsl_query', 'timezone'] as const;

/** A client that remembers every answer, also those to the same service with another key. */
export function createRecordingClient(
  baseUrl: string,
  key: string,
): { readonly client: ApiClient; readonly recording: Recording } {
  const answers: { key: string | null; text: string }[] = [];
  const promised = new Map<string, Promised>();

  const wrap = (inner: ApiClient, ofKey: string | null): ApiClient => {
    const keep = async (method: string, path: string, asked: Promise<ApiAnswer>) => {
      const answer = await asked;
      const headers = [...answer.headers].map(([name, value]) => `${name}: ${value}`);
      answers.push({ key: ofKey, text: [...headers, answer.text].join('\n') });
      if (answer.status >= 200 && answer.status < 300) note(inner, method, path, answer.body);
      return answer;
    };
    return {
      baseUrl,
      send: (method, path, request) => keep(method, path, inner.send(method, path, request)),
      get: (path, request) => keep('GET', path, inner.get(path, request)),
      post: (path, body, request) => keep('POST', path, inner.post(path, body, request)),
      patch: (path, body, request) => keep('PATCH', path, inner.patch(path, body, request)),
      put: (path, body, request) => keep('PUT', path, inner.put(path, body, request)),
      delete: (path, request) => keep('DELETE', path, inner.delete(path, request)),
      withKey: (other) => wrap(inner.withKey(other), other),
    };
  };

  const note = (client: ApiClient, method: string, path: string, body: WireBody) => {
    const match = /^(\/api\/.+\/batch_exports)(?:\/([0-9a-f-]{36}))?(?:\/(\w+))?\/?$/.exec(path);
    if (!match || method === 'GET') return;
    const [, list, id = body.id, verb] = match;
    const url = `${list}/${id}/`;
    const entry = promised.get(url) ?? { client, known: {}, backfillIds: [] };
    promised.set(url, entry);
    entry.known = method === 'DELETE' ? null : body;
    if (verb === 'backfill') entry.backfillIds.push(String(body.backfill_id));
  };

  const checkOne = async (url: string, { client, known, backfillIds }: Promised) => {
    const { status, body } = await client.get(url);
    if (known === null) return status === 404 ? [] : [`${url} was deleted and answers ${status}`];
    if (status !== 200) return [`${url} was written and answers ${status}`];
    const lost = settings
      .filter((name) => known[name] !== undefined && known[name] !== body[name])
      .map((name) => `${url}: ${name} was ${known[name]} and is ${body[name]}`);
    if (known.paused !== body.paused && body.paused_reason === null) {
      lost.push(`${url}: paused was ${known.paused} and is ${body.paused}`);
    }
    for (const id of backfillIds) {
      const answer = await client.get(`${url}backfills/${id}/`);
      if (answer.status !== 200) lost.push(`backfill ${id} answers ${answer.status}`);
    }
    return lost;
  };

  return {
    client: wrap(createApiClient(baseUrl, key), key),
    recording: {
      answers,
      async findLostWrites() {
        const lost: string[] = [];
        for (const [url, entry] of promised) lost.push(...(await checkOne(url, entry)));
        return lost;
      },
    },
  };
}
