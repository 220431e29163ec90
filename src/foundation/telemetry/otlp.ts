import type { SpanAttributes, SpanFacts } from '../domain/traces.ts';

/** What all spans of a process have. */
export type Resource = Readonly<Record<string, string>>;

export interface EndedSpan {
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
export function encodeSpans(resource: Resource, spans: readonly EndedSpan[]): string {
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
