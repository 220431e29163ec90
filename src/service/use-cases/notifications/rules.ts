import {
  maxRecipients,
  type NotificationSender,
  type NotificationType,
  type TargetKind,
  type WebhookFormat,
} from '../../../foundation/domain/notification.ts';
import type { Problem } from '../../../foundation/domain/problem.ts';

/** The settings of a target as a request gives them. */
export interface TargetInput {
  readonly description: string;
  /** Null for e-mail. */
  readonly url: string | null;
  readonly format: WebhookFormat;
  readonly recipients: readonly string[];
  readonly events: readonly NotificationType[];
  readonly enabled: boolean;
}

/**
 * Everything that is wrong with a target.
 *
 * @param isStored whether it exists: then a URL that is null stays as it is, and e-mail may be off by now
 */
export function checkTarget(
  sender: NotificationSender,
  kind: TargetKind,
  input: TargetInput,
  isStored: boolean,
): Problem[] {
  const problems = input.events.length === 0 ? [empty('events', 'Name at least one event.')] : [];
  if (kind === 'email') {
    return [...problems, ...checkEmail(input), ...(isStored ? [] : checkMail(sender, input))];
  }
  if (input.recipients.length > 0) {
    const detail = 'Only for kind email. A webhook has a url.';
    problems.push({ attr: 'recipients', code: 'invalid_input', detail });
  }
  if (input.url !== null) problems.push(...checkUrl(sender, input.url, input.format));
  else if (!isStored) problems.push(empty('url', 'Enter the URL that requests are sent to.'));
  return problems;
}

function checkUrl(
  sender: NotificationSender,
  text: string,
  format: TargetInput['format'],
): Problem[] {
  const problem = (detail: string): Problem[] => [{ attr: 'url', code: 'invalid_input', detail }];
  if (!URL.canParse(text)) return problem('Use a URL, such as https://example.com/hooks/sluice.');
  const url = new URL(text);
  if (url.protocol === 'http:' && !sender.allowsPlainHttp(url)) {
    return problem(
      'Must start with https://. http:// is only for hosts in ALLOWED_PRIVATE_ENDPOINTS.',
    );
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    return problem('Must start with https://.');
  }
  if (url.username !== '' || url.password !== '') {
    return problem(
      'Remove the user and password. Sluice signs its requests: check the signature instead.',
    );
  }
  if (url.hash !== '') return problem('Remove the fragment (what follows #).');
  const refusal = sender.refusalOf(url);
  if (refusal !== null) return problem(refusal);
  if (format === 'pagerduty' && !url.searchParams.get('routing_key')) {
    return problem(
      'Add the key of your service: https://events.pagerduty.com/v2/enqueue?routing_key=….',
    );
  }
  return [];
}

/** Says whether this installation may send a mail to each recipient. */
function checkMail(
  { canEmail, mayMail }: NotificationSender,
  { recipients }: TargetInput,
): Problem[] {
  const detail =
    'This installation cannot send e-mail. Ask your operator to set SMTP_URL and MAIL_FROM, or use a webhook.';
  if (!canEmail) return [{ attr: 'kind', code: 'invalid_input', detail }];
  const others = recipients.filter((each) => isAddress(each) && !mayMail(each));
  if (others.length === 0) return [];
  const unlisted = `This installation sends no mail to ${others.join(', ')}. Ask your operator to list the address or its domain in MAIL_RECIPIENTS, or use a webhook.`;
  return [{ attr: 'recipients', code: 'invalid_input', detail: unlisted }];
}

function checkEmail(input: TargetInput): Problem[] {
  const { recipients, url, format } = input;
  const invalid = (attr: string, detail: string): Problem => ({
    attr,
    code: 'invalid_input',
    detail,
  });
  const problems: Problem[] = [];
  if (url !== null) problems.push(invalid('url', 'Only for kind webhook.'));
  if (format !== 'json') problems.push(invalid('format', 'Only for kind webhook.'));
  if (recipients.length === 0) {
    problems.push(empty('recipients', 'Enter the e-mail address of at least one recipient.'));
  }
  if (recipients.length > maxRecipients) {
    problems.push(invalid('recipients', `Enter at most ${maxRecipients} recipients.`));
  }
  if (recipients.some((each) => !isAddress(each))) {
    problems.push(
      invalid('recipients', 'Enter plain e-mail addresses, such as oncall@example.com.'),
    );
  }
  return problems;
}

/** One plain address: no names, no lists, nothing that could begin another header or command. */
function isAddress(text: string): boolean {
  return (
    text.length <= 254 && /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]+\.[A-Za-z0-9-]+$/.test(text)
  );
}

const empty = (attr: string, detail: string): Problem => ({ attr, code: 'required', detail });

/** Characters of a path or query that are shown at its end, to recognise it by. */
const shownEnd = 4;

/** The part of a URL that is shown: its origin and its end. The rest may be a credential. */
export function previewUrl(text: string): string {
  const { origin, pathname, search } = new URL(text);
  const rest = `${pathname}${search}`;
  if (rest === '/') return origin;
  return rest.length <= 2 * shownEnd ? `${origin}/…` : `${origin}/…${rest.slice(-shownEnd)}`;
}
