import type { Notification } from '../../foundation/domain/notification.ts';
import { cutText } from '../../foundation/domain/one-line.ts';
import { describe } from './payload.ts';

/** An adaptive card for Microsoft Teams, of plain text: no name of a tenant is read as markup or as a mention. */
export function teamsBody(notification: Notification, publicUrl: string | null): string {
  const { title, lines } = describe(notification, publicUrl);
  const block = (text: string, isTitle: boolean) => ({
    type: 'RichTextBlock',
    inlines: [{ type: 'TextRun', text, ...(isTitle && { weight: 'Bolder', size: 'Medium' }) }],
  });
  const link = lines.find((line) => URL.canParse(line) && line.startsWith('http'));
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    body: [
      block(title, true),
      ...lines.filter((line) => line !== link).map((line) => block(line, false)),
    ],
    ...(link && { actions: [{ type: 'Action.OpenUrl', title: 'Open the export', url: link }] }),
  };
  const contentType = 'application/vnd.microsoft.card.adaptive';
  return JSON.stringify({
    type: 'message',
    attachments: [{ contentType, contentUrl: null, content }],
  });
}

/** Discord's limits of an embed. */
const maxTitle = 256;
const maxText = 4_096;

/** A message for a webhook of Discord. It mentions no one. */
export function discordBody(notification: Notification, publicUrl: string | null): string {
  const { title, lines } = describe(notification, publicUrl);
  const description = lines.map((line) => (line.startsWith('http') ? line : escapeMarkdown(line)));
  const embed = {
    title: cutText(escapeMarkdown(title), maxTitle),
    description: cutText(description.join('\n'), maxText),
  };
  return JSON.stringify({ embeds: [embed], allowed_mentions: { parse: [] } });
}

function escapeMarkdown(text: string): string {
  return text.replace(/[\\*_~`|<>[\]#]/g, '\\$&');
}

type Cause = 'failing' | 'late' | 'incomplete' | 'no_workers' | 'load' | 'verify';

/** The meaning of each type for an export: a cause begins or ends. The others open an alert of their own. */
const causes: Partial<Record<Notification['type'], readonly [Cause, 'trigger' | 'resolve']>> = {
  'export.failing': ['failing', 'trigger'],
  'export.retries_exhausted': ['failing', 'trigger'],
  'export.paused': ['failing', 'trigger'],
  'export.recovered': ['failing', 'resolve'],
  'export.late': ['late', 'trigger'],
  'export.on_time': ['late', 'resolve'],
  'export.incomplete': ['incomplete', 'trigger'],
  'export.complete': ['incomplete', 'resolve'],
  'load.differs': ['load', 'trigger'],
  'load.agrees': ['load', 'resolve'],
  'verify.failed': ['verify', 'trigger'],
  'verify.passed': ['verify', 'resolve'],
  'installation.no_workers': ['no_workers', 'trigger'],
  'installation.no_workers_over': ['no_workers', 'resolve'],
};

/** Events about several exports. The end of one export's trouble is not the end of the others', so nothing resolves their alert. */
const ofSeveral: Partial<Record<Notification['type'], 'error' | 'warning'>> = {
  'healing.started': 'error',
  'interval.at_risk': 'warning',
  'interval.missed': 'error',
};

/** PagerDuty cuts a summary. */
const maxSummary = 1_024;

/** One alert for each export and cause: a recovery resolves it. @param routingKey of the service at PagerDuty */
export function pagerDutyBody(
  notification: Notification,
  publicUrl: string | null,
  routingKey: string,
): string {
  const { eventId, type, happenedAt, facts } = notification;
  const { title, lines } = describe(notification, publicUrl);
  const exportId = (facts as { readonly export?: { readonly id: string } }).export?.id;
  const [cause, action] = causes[type] ?? [];
  const subject = exportId ?? (cause === 'no_workers' ? 'installation' : undefined);
  const isAlert = cause !== undefined && subject !== undefined;
  const link = lines.find((line) => line.startsWith('http'));
  return JSON.stringify({
    routing_key: routingKey,
    event_action: isAlert ? action : 'trigger',
    dedup_key: isAlert ? `sluice:${subject}:${cause}` : `sluice:event:${eventId}`,
    payload: {
      summary: cutText(title, maxSummary),
      source: 'sluice',
      severity: isAlert ? (cause === 'late' ? 'warning' : 'error') : (ofSeveral[type] ?? 'info'),
      timestamp: happenedAt,
      custom_details: { event: type, details: lines },
    },
    ...(link && { links: [{ href: link, text: 'Open the export' }] }),
  });
}

/** The key is in the URL of the target, which is kept secret as a whole; PagerDuty takes it in the body. */
export function takeRoutingKey(given: URL): {
  readonly url: URL;
  readonly routingKey: string | null;
} {
  const url = new URL(given);
  const routingKey = url.searchParams.get('routing_key');
  url.searchParams.delete('routing_key');
  return { url, routingKey };
}
