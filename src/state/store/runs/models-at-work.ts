import { querySet } from '../database/statement.ts';
import { live } from './run-moves.ts';

/** A model counts for this long after its last run. */
const afterwards = `interval '1 minute'`;

/** The models whose source is read now: those with runs that wait, read or have just ended, or with intervals that are checked again. */
export const listModelsAtWork = querySet<string>(`
     select distinct model from batch_exports where id in (
       select export_id from runs where status in ${live}
       union select export_id from runs where finished_at > now() - ${afterwards}
       union select export_id from receipts where not settled)`);
