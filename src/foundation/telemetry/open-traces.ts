import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import {
  type OpenSpan,
  readTraceparent,
  type SpanAttributes,
  type SpanFacts,
  type Traces,
} from '../domain/traces.ts';

export interface TraceSettings {
  /** The base address of an OTLP/HTTP receiver, such as http://127.0.0.1:4318. */
  readonly endpoint: string;
  /** Headers as OpenTelemetry writes them: `name=value,name=value`, values percent-encoded. */
  readonly headers: string | null;
  readonly serviceName: string;
  readonly serviceVersion: string;
  /** The part of Sluice: api, worker. */
  readonly role: string;
}

export interface OpenTraces extends Traces {
  /** Sends what is left, for at most some seconds. */
  close(): Promise<void>;
}

/** For one request to the receiver. */
const requestMs = 10_000;

/** At the end of the process. */
const goodbyeMs = 3_000;

const sendEveryMs = 2_000;
const spansPerRequest = 512;

/** Spans that wait to be sent; more are dropped. */
const maxWaiting = 4_096;

/** Between two complaints. */
const complainEveryMs = 60_000;

/**
 * Opens the export of spans: OTLP over HTTP, in JSON. Nothing waits for the receiver, and spans that it does not take are lost.
 *
 * @param onError spans were lost; called at most once a minute
 */
export function openTraces(
  settings: TraceSettings,
  onError: (message: string) => void,
): OpenTraces {
  const sender = new SpanSender(settings, onError);
  const surrounding = new AsyncLocalStorage<OpenSpan>();

  const begin = (name: string, { kind, attributes = {}, parent }: SpanFacts): OpenSpan => {
    const above = readTraceparent(
      parent === undefined ? (surrounding.getStore()?.traceparent ?? null) : parent,
    );
    const [, traceId = randomId(16), parentSpanId = null, flags] = above?.split('-') ?? [];
    const isSampled = flags === undefined || (Number.parseInt(flags, 16) & 1) === 1;
    const spanId = randomId(8);
    const startMs = wallClock();
    let allAttributes: SpanAttributes = attributes;
    let isEnded = false;
    return {
      traceparent: `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`,
      set(more) {
        allAttributes = { ...allAttributes, ...more };
      },
      end(error) {
        if (isEnded || !isSampled) return;
        isEnded = true;
        const failed = error === null ? allAttributes : { ...allAttributes, 'error.type': error };
        const ended = { traceId, spanId, parentSpanId, name, kind, startMs, endMs: wallClock() };
        sender.add({ ...ended, attributes: failed, isError: error !== null });
      },
    };
  };

  return {
    begin,
    within: (span, work) => surrounding.run(span, work),
    current: () => surrounding.getStore()?.traceparent ?? null,
    async during(name, facts, work) {
      const span = begin(name, facts);
      try {
        const result = await surrounding.run(span, () => work(span));
        span.end(null);
        return result;
      } catch (error) {
        span.end(codeOf(error));
        throw error;
      }
    },
    close: () => sender.close(),
  };
}

/** Keeps spans until there are enough for a request, or some time is over. One request at a time. */
class SpanSender {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #resource: Resource;
  readonly #onError: (message: string) => void;
  readonly #timer: NodeJS.Timeout;
  #waiting: EndedSpan[] = [];
  #sending: Promise<void> | null = null;
  #lost = 0;
  #complainedAt = Number.NEGATIVE_INFINITY;

  constructor(settings: TraceSettings, onError: (message: string) => void) {
    const { endpoint, headers, serviceName, serviceVersion, role } = settings;
    this.#url = `${endpoint.replace(/\/+$/, '')}/v1/traces`;
    this.#headers = { ...readHeaders(headers), 'content-type': 'application/json' };
    this.#resource = {
      'service.name': serviceName,
      'service.version': serviceVersion,
      'service.instance.id': `${role}-${process.pid}`,
    };
    this.#onError = onError;
    this.#timer = setInterval(() => void this.#send(), sendEveryMs).unref();
  }

  add(span: EndedSpan): void {
    if (this.#waiting.length >= maxWaiting) {
      this.#lose(1, 'the receiver is too slow');
      return;
    }
    this.#waiting.push(span);
    if (this.#waiting.length >= spansPerRequest) void this.#send();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    const late = AbortSignal.timeout(goodbyeMs);
    while ((this.#waiting.length > 0 || this.#sending) && !late.aborted) await this.#send(late);
  }

  #send(late?: AbortSignal): Promise<void> {
    this.#sending ??= this.#post(late).finally(() => {
      this.#sending = null;
    });
    if (!late) return this.#sending;
    const isLate = new Promise<void>((resolve) => {
      late.addEventListener('abort', () => resolve(), { once: true });
    });
    return Promise.race([this.#sending, isLate]);
  }

  async #post(late?: AbortSignal): Promise<void> {
    const spans = this.#waiting.splice(0, spansPerRequest);
    if (spans.length === 0) return;
    const timeout = AbortSignal.timeout(requestMs);
    try {
      const answer = await fetch(this.#url, {
        method: 'POST',
        headers: this.#headers,
        body: encodeSpans(this.#resource, spans),
        // The headers may hold a secret.
        redirect: 'error',
        signal: late ? AbortSignal.any([timeout, late]) : timeout,
      });
      await answer.body?.cancel();
      if (!answer.ok) this.#lose(spans.length, `HTTP ${answer.status}`);
    } catch (error) {
      const { cause } = error as { readonly cause?: unknown };
      this.#lose(spans.length, String(cause ?? error));
    }
  }

  #lose(spans: number, why: string): void {
    this.#lost += spans;
    const now = performance.now();
    if (now - this.#complainedAt < complainEveryMs) return;
    this.#complainedAt = now;
    this.#onError(`${this.#lost} spans were lost: ${why}`);
    this.#lost = 0;
  }
}

/** Milliseconds since the epoch, with fractions; a clock that is set does not move it. */
const wallClock = (): number => performance.timeOrigin + performance.now();

/** An id of zeros means that there is none; of random ones none is. */
const randomId = (bytes: number): string => randomBytes(bytes).toString('hex');

/** Our code of an error, or its name. Never its message: a store or a query may have written it. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return '_OTHER';
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && /^[\w.]{1,100}$/.test(code) ? code : error.name;
}

function readHeaders(text: string | null): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const pair of (text ?? '').split(',')) {
    const at = pair.indexOf('=');
    if (at > 0) headers[pair.slice(0, at).trim()] = decodeURIComponent(pair.slice(at + 1).trim());
  }
  return headers;
}

/** All spans of a process have these. */
type Resource = Readonly<Record<string, string>>;

interface EndedSpan {
  /** 32 and 16 hexadecimal digits. */
  readonly traceId: string;
  readonly spanId: string;
  /** Null: the span begins its trace. */
  readonly parentSpanId: string | null;
  readonly name: string;
  readonly kind: SpanFacts['kind'];
  /** Since the epoch. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: SpanAttributes;
  readonly isError: boolean;
}

/** The numbers of opentelemetry/proto/trace/v1/trace.proto. */
const kinds: Readonly<Record<SpanFacts['kind'], number>> = {
  internal: 1,
  server: 2,
  producer: 4,
  consumer: 5,
};
const statusError = 2;

/** The body of an ExportTraceServiceRequest, in the JSON of OTLP. */
function encodeSpans(resource: Resource, spans: readonly EndedSpan[]): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [{ scope: { name: 'sluice' }, spans: spans.map(encodeSpan) }],
      },
    ],
  });
}

function encodeSpan(span: EndedSpan) {
  const { traceId, spanId, parentSpanId, name, kind, startMs, endMs, attributes, isError } = span;
  return {
    traceId,
    spanId,
    ...(parentSpanId !== null && { parentSpanId }),
    name,
    kind: kinds[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(endMs),
    attributes: attributesOf(attributes),
    status: isError ? { code: statusError } : {},
  };
}

/** 64-bit numbers are texts in the JSON of protocol buffers. */
const nanoseconds = (ms: number): string => String(BigInt(Math.round(ms * 1_000)) * 1_000n);

const attributesOf = (attributes: SpanAttributes) =>
  Object.entries(attributes).map(([key, value]) => ({ key, value: encodeValue(value) }));

function encodeValue(value: string | number | boolean) {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
