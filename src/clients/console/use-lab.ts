import { useState } from 'react';
import type { PreviewRequest, RowPreview } from './api-types.ts';
import { ApiFailure } from './api.ts';
import { useConsole, useDescription } from './console-context.ts';
import { labRowsOf } from './lab-rows.ts';
import { useAction } from './use-action.ts';

/** The question of the operator to the lab. */
export interface LabDraft {
  readonly source: 'newest' | 'rows';
  readonly limit: string;
  readonly rows: string;
  /** Empty: the default of the installation, if it has one. */
  readonly model: string;
}

export interface LabState {
  readonly draft: LabDraft;
  readonly change: (part: Partial<LabDraft>) => void;
  readonly run: () => Promise<void>;
  /** Only whether the API takes the settings. Throws ApiFailure if not. */
  readonly check: () => Promise<void>;
  readonly busy: boolean;
  /** Names fields of the only given step without their prefix. */
  readonly failure: ApiFailure | null;
  readonly clear: () => void;
  /** Null before the first answer. */
  readonly result: RowPreview | null;
}

/** @param chain the chain to try, read when the lab runs */
export function useLab(chain: () => Pick<PreviewRequest, 'configs' | 'transformations'>): LabState {
  const { api } = useConsole();
  const here = useDescription().data?.installation;
  const [draft, setDraft] = useState<LabDraft>({
    source: 'newest',
    limit: '5',
    rows: '',
    model: '',
  });
  const [result, setResult] = useState<RowPreview | null>(null);
  const ask = async (request: PreviewRequest) => {
    try {
      return await api.post('batch_exports/preview', {}, { ...chain(), ...request, trace: true });
    } catch (error) {
      throw error instanceof ApiFailure ? atStep(error) : error;
    }
  };
  const { run, busy, failure, clear } = useAction(async () => {
    setResult(null);
    setResult(await ask(requestOf(draft)));
  });
  const check = async () => {
    // Settings are checked alike for all models.
    const model = draft.model || here?.models[0]?.name;
    await ask({ ...(model && { model }), rows: [{}] });
  };
  const change = (part: Partial<LabDraft>) => setDraft((last) => ({ ...last, ...part }));
  return { draft, change, run, check, busy, failure, clear, result };
}

function requestOf({ source, limit, rows, model: name }: LabDraft): PreviewRequest {
  const model = name === '' ? {} : { model: name };
  if (source === 'newest') return { ...model, limit: Number(limit) };
  const read = labRowsOf(rows);
  if (read !== null) return { ...model, rows: read };
  const detail = 'Write a JSON object, a list of JSON objects, or one JSON object per line.';
  throw new ApiFailure(400, [{ code: 'invalid_input', detail, attr: 'rows' }], null);
}

function atStep({ status, problems, requestId }: ApiFailure): ApiFailure {
  const named = problems.map(({ attr, ...rest }) => {
    return { ...rest, attr: attr?.replace(/^configs__0__/, '') ?? null };
  });
  return new ApiFailure(status, named, requestId);
}
