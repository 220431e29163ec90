import { InvalidArgumentError } from 'commander';
import { parseTime } from '../../foundation/domain/parse-time.ts';
import { ceilInstant, type Instant, type Timestamp } from '../../foundation/domain/time.ts';

/** Readers of option values. Each throws commander's error, which leads to exit code 2. */

export function readUuid(text: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) {
    throw new InvalidArgumentError('It must be a UUID.');
  }
  return text.toLowerCase();
}

export function readProjectId(text: string): number {
  const id = Number(text);
  if (!/^\d+$/.test(text) || id < 1 || id > 2_147_483_647) {
    throw new InvalidArgumentError(
      'It must be the id of a project. See `sluice projects list --organization <id>`.',
    );
  }
  return id;
}

/** For an option that may be repeated. */
export function collectProjectIds(text: string, ids: readonly number[] = []): number[] {
  return [...ids, readProjectId(text)];
}

export function readList(text: string): string[] {
  const items = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  if (items.length === 0) throw new InvalidArgumentError('It is empty: name at least one.');
  return items;
}

export function readTime(text: string): Timestamp {
  const parsed = parseTime(text);
  if (!parsed) {
    throw new InvalidArgumentError('It must be a time in ISO 8601, such as 2024-03-01T00:00:00Z.');
  }
  return parsed.timestamp;
}

export function readWholeNumber(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new InvalidArgumentError('It must be a whole number.');
  }
  return value;
}

export function readCount(text: string): number {
  const value = readWholeNumber(text);
  if (value === 0) throw new InvalidArgumentError('It must be at least 1.');
  return value;
}

export function readEventRows(text: string): number {
  const rows = Number(text);
  if (!/^\d+$/.test(text) || rows < 1 || rows > 10_000_000) {
    throw new InvalidArgumentError('It must be a whole number from 1 to 10000000.');
  }
  return rows;
}

export function readInstant(text: string): Instant {
  return ceilInstant(readTime(text));
}

export function readSeconds(text: string): number {
  const seconds = Number(text);
  if (!/^\d+$/.test(text) || seconds > 31_536_000) {
    throw new InvalidArgumentError('It must be a whole number of seconds, at most 31536000.');
  }
  return seconds;
}

export function readWebhook(text: string): string {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) {
    throw new InvalidArgumentError('It must be a URL, such as https://example.com/hooks/sluice.');
  }
  return text;
}
