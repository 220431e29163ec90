/** A span's attributes: ids, counts and codes. Never a query, a config or anything else that a customer wrote. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanFacts {
  readonly kind: 'internal' | 'server' | 'producer' | 'consumer';
  readonly attributes?: SpanAttributes;
  /** A W3C traceparent. Absent: the span that this call is in, else none; null: the span begins a trace. */
  readonly parent?: string | null;
}

/** A span that has begun. */
export interface OpenSpan {
  /** Its W3C traceparent. */
  readonly traceparent: string;
  set(attributes: SpanAttributes): void;
  /** @param error the code of what failed; null: nothing */
  end(error: string | null): void;
}

/** Where spans go. */
export interface Traces {
  /** A span that the caller ends. */
  begin(name: string, facts: SpanFacts): OpenSpan;
  /** Does the work in a span, which fails if the work throws. */
  during<T>(name: string, facts: SpanFacts, work: (span: OpenSpan) => Promise<T>): Promise<T>;
  /** Spans that begin in the work are within this one. */
  within<T>(span: OpenSpan, work: () => T): T;
  /** The traceparent of the span that this call is in; null: none. */
  current(): string | null;
}

/** Does the work in a span, if traces are on. */
export function inSpan<T>(
  traces: Traces | undefined,
  name: string,
  attributes: SpanAttributes,
  work: () => Promise<T>,
): Promise<T> {
  return traces ? traces.during(name, { kind: 'internal', attributes }, work) : work();
}

const pattern = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Null if the text is no traceparent of version 00. */
export function readTraceparent(text: unknown): string | null {
  return typeof text === 'string' && pattern.test(text) ? text : null;
}
