import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Column } from '../../../foundation/domain/row-block.ts';
import type { SelectPlan } from './plan.ts';
import { RowTooLargeError } from './row-skimmer.ts';

/** A read failure; a row that is too large is named by its key, if the key is known. */
export function nameLargeRow(error: unknown, select: SelectPlan, maxRowBytes: number): unknown {
  if (!(error instanceof RowTooLargeError)) return error;
  const { columns, hidden, keys } = select;
  const all = [...columns, ...hidden];
  const parts = (keys?.places ?? []).map((place, index) => {
    const column = all[place];
    const bytes = error.fields[place];
    return column && bytes ? `${keys?.columns[index]?.name} ${keyText(column.type, bytes)}` : null;
  });
  const key = parts.filter((part) => part !== null).join(', ');
  const row = key === '' ? 'a row' : `the row with ${key}`;
  const detail = `${row} has more than ${maxRowBytes / 2 ** 20} MiB`;
  return new SluiceError('source.row_too_large', detail, error);
}

function keyText(type: Column['type'], bytes: Buffer): string {
  switch (type) {
    case 'uuid':
      return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    case 'int2':
    case 'int4':
      return String(bytes.readIntBE(0, bytes.length));
    case 'int8':
      return String(bytes.readBigInt64BE());
    case 'text':
    case 'json':
    case 'as_json':
      return bytes.toString('utf8');
    default:
      return `0x${bytes.toString('hex')}`;
  }
}
