import { type BaseReason, baseReasons, type Element } from '../../foundation/domain/element.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { isSamePoint, type PlannedElement, planElement } from '../changes/plan-element.ts';
import type { SequenceReading, SourceSnapshot } from '../sources/source.ts';
import { DeliveredKeys, findKeyColumns } from './delivered-keys.ts';
import { requestOf, type SettledAttempt } from './interval-job.ts';
import { allKeyIndicesOf } from './write-rows.ts';

export interface OpenedRows {
  readonly snapshot: SourceSnapshot;
  /** Null: an interval. */
  readonly planned: PlannedElement | null;
  /** Null: the element compares no keys. The caller closes them. */
  readonly delivered: DeliveredKeys | null;
}

/** Opens the rows of an attempt. Of mode changes it first decides what the element is. */
export async function openRows(attempt: SettledAttempt): Promise<OpenedRows> {
  const { job, source, ports, settlement, signal } = attempt;
  const { position, server } = settlement;
  const open = (request: typeof job.request) => source.open(request, signal, position, server);
  const { sequence } = job;
  const request = requestOf(job);
  if (!sequence) return { snapshot: await open(request), planned: null, delivered: null };
  if (job.current !== null) {
    // The API refuses to make an element again: it is the only copy of its changes.
    throw new Error('the interval has an element already');
  }
  const reading = await source.readSequence(request.model, request.tenantKey, signal);
  const plan = (due: BaseReason | null) => planElement({ ...job, sequence, request }, reading, due);
  // Files are read before the transaction of the source begins.
  const { planned, delivered } = await readDelivered(attempt, reading, plan);
  let snapshot: SourceSnapshot | null = null;
  try {
    ports.log('INFO', describeElement(planned.element));
    snapshot = await open({ ...request, element: planned.request });
    checkElement(snapshot, planned);
    return { snapshot, planned, delivered };
  } catch (error) {
    await snapshot?.close();
    await delivered?.close();
    throw error;
  }
}

/** Plans an element, with the keys that it compares. If they are not all known, it is a base, which has no need of them. */
async function readDelivered(
  attempt: SettledAttempt,
  { compareEvery }: SequenceReading,
  plan: (due: BaseReason | null) => PlannedElement,
): Promise<Pick<OpenedRows, 'delivered'> & { readonly planned: PlannedElement }> {
  const planned = plan(null);
  const { follows } = planned.element;
  const isDue = planned.compares || follows === null;
  if (compareEvery === null || !isDue) return { planned, delivered: null };
  const columns = await findKeyColumns(attempt);
  if (follows === null) return { planned, delivered: null };
  const delivered = await DeliveredKeys.read(attempt, follows, columns);
  if (typeof delivered !== 'string') return { planned, delivered };
  attempt.ports.log('WARNING', `The keys that were delivered cannot be read back: ${delivered}.`);
  return { planned: plan('unread'), delivered: null };
}

function describeElement({ number, base, follows }: PlannedElement['element']): string {
  if (base === null) return `Element ${number}: what changed since element ${follows}.`;
  return `Element ${number} is a base, with all rows: ${baseReasons[base]}.`;
}

/** @throws SluiceError if the table is not what the element was planned for, or if readers could not tell its rows apart */
function checkElement(snapshot: SourceSnapshot, { element, request }: PlannedElement): void {
  const { sequence } = snapshot;
  const isSame = sequence && isSamePoint(sequence.point, element.point);
  if (!isSame || sequence.isUnique !== request.isUnique) {
    const detail = 'the table or its server changed while the element was planned';
    throw new SluiceError('source.unavailable', detail);
  }
  if (allKeyIndicesOf(snapshot) === null) {
    const detail =
      'with mode changes the query must select every key column of the model as it is, because readers apply changes by key';
    throw new SluiceError('query.invalid', detail);
  }
}

export function elementOf(
  { snapshot: { sequence }, planned }: OpenedRows,
  deletes: number,
): Element | null {
  if (planned === null || !sequence) return null;
  const { element } = planned;
  // Of transaction ids the snapshot itself says what it does not show.
  return { ...element, next: sequence.next ?? element.next, at: sequence.atMs, deletes };
}
