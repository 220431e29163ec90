import type { RowPreview } from '../api-types.ts';
import { formatCell } from '../numbers.ts';

const shown = 20;

/** Some rows as a table. */
export function Sample({ preview }: { preview: RowPreview }) {
  return (
    <>
      <SampleTable preview={preview} />
      <LeftOut sentence={preview.left_out} />
    </>
  );
}

/** Says what an answer leaves out. */
export function LeftOut({ sentence }: { sentence: string | null }) {
  return sentence === null ? null : <p role="status">{sentence}</p>;
}

function SampleTable({ preview: { columns, rows } }: { preview: RowPreview }) {
  if (rows.length === 0) {
    return (
      <p className="muted" role="status">
        There are no rows to show.
      </p>
    );
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard.
    <section className="sample small" aria-label="Preview of rows" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ name, type }) => (
              <th key={name} scope="col">
                {name} <small className="muted">{type}</small>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(-shown).map((row, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no known key.
            <tr key={index}>
              {columns.map(({ name }, column) => (
                <td key={name}>{formatCell(row[column])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
