import { nearestName } from '../../../foundation/domain/nearest-name.ts';
import type { Problem } from '../../../foundation/domain/problem.ts';
import type { ExportRules } from '../../use-cases/exports/rules.ts';
import { isRecord } from '../validation/every-problem.ts';

type Json = Readonly<Record<string, unknown>>;

/**
 * The problems that the schema of an export cannot see: a query under two names, and the config of a destination without a type.
 *
 * @param isNew whether a destination needs a config
 */
export function exportFaults(
  { destinationTypes }: ExportRules,
  body: Json,
  isNew: boolean,
): readonly Problem[] {
  const { dsl_query: query, hogql_query: other, destination } = body;
  const faults: Problem[] = [];
  if (query !== undefined && other !== undefined && query !== other) faults.push(twoQueries);
  if (!isRecord(destination) || destinationTypes.includes(textOf(destination.type))) return faults;
  const attr = 'destination__config';
  const { config } = destination;
  if (config === undefined) {
    if (isNew) faults.push({ code: 'required', detail: 'This field is required.', attr });
  } else if (config === null)
    faults.push({ code: 'null', detail: 'This field may not be null.', attr });
  else if (!isRecord(config))
    faults.push({ code: 'incorrect_type', detail: 'Expected an object.', attr });
  return faults;
}

export const twoQueries: Problem = {
  code: 'invalid_input',
  detail: 'This is another name of dsl_query, and the two differ. Send one of them.',
  attr: 'hogql_query',
};

/**
 * Values for fields of an export with a problem. No interval: then only the ranges of its offsets are checked. The model is the one
 * that the query names. The destination is the one whose name or settings the body has.
 */
export function repairExport(rules: ExportRules, body: Json, faulty: ReadonlySet<string>): Json {
  const destination = faulty.has('destination') ? likelyDestination(rules, body) : null;
  return {
    ...(faulty.has('interval') && { interval: '' }),
    ...(faulty.has('model') && { model: likelyModel(rules, body) }),
    ...(destination && { destination }),
  };
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function likelyModel({ models }: ExportRules, { model, dsl_query: query }: Json): string {
  const names = models.map(({ name }) => name);
  const words = new Set(textOf(query).split(/[^\p{L}\p{N}_]+/u));
  return (
    names.find((name) => words.has(name)) ?? nearestName(textOf(model), names) ?? names[0] ?? ''
  );
}

function likelyDestination(rules: ExportRules, { destination }: Json) {
  if (!isRecord(destination) || !isRecord(destination.config)) return null;
  const { type, config } = destination;
  const hits = (name: string) => rules.ownProperties(name).filter((one) => one in config).length;
  const [most] = rules.destinationTypes.toSorted((a, b) => hits(b) - hits(a));
  const own = most !== undefined && hits(most) > 0 ? most : null;
  const likely = nearestName(textOf(type), rules.destinationTypes, 3) ?? own;
  return likely === null ? null : { type: likely, config };
}
