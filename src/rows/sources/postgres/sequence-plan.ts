import { changeColumns } from '../../../foundation/domain/element.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Model, ModelChanges } from '../../../foundation/domain/model.ts';
import type { Column } from '../../../foundation/domain/row-block.ts';
import type { SequenceReading } from '../source.ts';
import { sequenceOf, sequencePointSql } from './sequence-point.ts';

/** A statement about the state of a changing table. */
export interface SequencePlan {
  readonly sql: string;
  /** Reads its answer. @param openSince as of `sequenceOf` */
  of(answer: string, openSince: number | null): SequenceReading;
}

/** @throws SluiceError `source.model_invalid` if the model has no version */
export function changesOf({ name, changes }: Model): ModelChanges {
  if (changes) return changes;
  const detail = `${name} has no version_column, so its changes cannot be exported`;
  throw new SluiceError('source.model_invalid', detail);
}

/** Reads the state of a model's table. */
export function sequencePlanOf(model: Model): SequencePlan {
  const changes = changesOf(model);
  return {
    sql: sequencePointSql(model, changes),
    of: (answer, openSince) => sequenceOf(model, changes, answer, openSince),
  };
}

/** The version among the columns of an element's rows. */
export function versionColumnOf(columns: readonly Column[]): Column {
  const version = columns.find(({ name }) => name === changeColumns.version);
  if (!version) throw new Error('the rows of an element have no version');
  return version;
}
