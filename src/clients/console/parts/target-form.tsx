import { useState } from 'react';
import type { ApiFailure } from '../client.ts';
import { Choice } from '../form/choice.tsx';
import { TextField } from '../form/text-field.tsx';
import type { NotificationTarget, TargetBody } from '../api-types.ts';
import { useAction } from '../use-action.ts';
import { ConfirmDialog } from './dialog.tsx';

interface Props {
  /** Null: a new one. */
  readonly target: NotificationTarget | null;
  /** The events that a target can ask for. */
  readonly events: readonly string[];
  readonly save: (body: TargetBody) => Promise<void>;
  readonly onClose: () => void;
}

const kinds = [
  ['webhook', 'Webhook'],
  ['email', 'E-mail'],
] as const;

/** Creates or edits a notification target. */
export function TargetDialog({ target, events: all, save, onClose }: Props) {
  const [kind, setKind] = useState<NotificationTarget['kind']>(target?.kind ?? 'webhook');
  const [description, setDescription] = useState(target?.description ?? '');
  const [url, setUrl] = useState('');
  const [format, setFormat] = useState<string>(target?.format ?? 'json');
  const [recipients, setRecipients] = useState(target?.recipients.join(', ') ?? '');
  const [events, setEvents] = useState<readonly string[]>(target?.events ?? all);
  const action = useAction(async () => {
    const address =
      kind === 'email'
        ? { recipients: recipients.split(/[\s,]+/).filter((each) => each !== '') }
        : { ...(url === '' ? {} : { url }), format };
    const body = { ...(target ? {} : { kind }), description, events, ...address };
    await save(body as TargetBody);
    onClose();
  });
  const errorOf = (attr: string) => problemOf(action.failure, attr);
  const toggle = (event: string) =>
    setEvents(
      events.includes(event) ? events.filter((each) => each !== event) : [...events, event],
    );
  return (
    <ConfirmDialog
      title={target ? 'Edit the target' : 'New notification target'}
      verb={target ? 'Save' : 'Create'}
      action={action}
      onClose={onClose}
    >
      {!target && (
        <Choice attr="kind" label="Kind" value={kind} choices={kinds} onChange={setKind} />
      )}
      <TextField
        attr="description"
        label="Description"
        value={description}
        onChange={setDescription}
        error={errorOf('description')}
      />
      {kind === 'webhook' ? (
        <>
          <TextField
            attr="url"
            label="URL"
            value={url}
            onChange={setUrl}
            error={errorOf('url')}
            help={target ? `Now ${target.url_preview}. Empty: it stays.` : 'https only.'}
          />
          <TextField
            attr="format"
            label="Format"
            value={format}
            onChange={setFormat}
            error={errorOf('format')}
            help="json for a program, slack for a channel."
          />
        </>
      ) : (
        <TextField
          attr="recipients"
          label="Recipients"
          value={recipients}
          onChange={setRecipients}
          error={errorOf('recipients')}
          help="E-mail addresses, separated by commas."
        />
      )}
      <fieldset>
        <legend>Events</legend>
        {all.map((event) => (
          <label key={event} className="field inline">
            <input
              type="checkbox"
              checked={events.includes(event)}
              onChange={() => toggle(event)}
            />{' '}
            {event}
          </label>
        ))}
      </fieldset>
    </ConfirmDialog>
  );
}

const problemOf = (failure: ApiFailure | null, attr: string): string | undefined =>
  failure?.problems.find((problem) => problem.attr === attr)?.detail;
