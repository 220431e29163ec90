import { ConfigGroup, fieldsOfGroup, needsToBeSeen } from './config-group.tsx';
import type { PartProps } from './part-props.ts';

/** How rows become files: format, compression, size, and what is written for special values. */
export function FileFields(props: PartProps) {
  const files = fieldsOfGroup(props, 'files');
  const values = fieldsOfGroup(props, 'values');
  if (files.length === 0) return null;
  const opened = needsToBeSeen(props, values);
  return (
    <section className="card panel">
      <h2>Files</h2>
      <ConfigGroup {...props} group="files" />
      {values.length > 0 && (
        <details open={opened || undefined}>
          <summary>Special values and rejected rows</summary>
          <ConfigGroup {...props} group="values" />
        </details>
      )}
    </section>
  );
}
