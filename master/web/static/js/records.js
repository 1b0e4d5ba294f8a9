// What the API answers with, as types for the checker; `/openapi.json` says what each field means.

/**
 * @typedef {{ rank: number, pod: string, exit_code: number | null }} Rank
 * @typedef {{ metric: string, value: number, lower_is_better: boolean }} Goal
 * @typedef {{ recorded: number, in_prometheus: number, kept: number }} Delivery
 *
 * @typedef {{
 *   id: number, name: string, state: string, reason: string, waiting: string,
 *   created_at: string, started_at: string | null, finished_at: string | null,
 *   benchmark: string, args: Record<string, string>, image: string, command: string,
 *   working_dir: string | null, backend: string, run_all_nodes: boolean,
 *   num_workers: number, num_cpus: number | null, max_bandwidth: number | null,
 *   gpu_enabled: boolean, light_target: boolean, seed: number | null,
 *   deadline_seconds: number | null, max_restarts: number, attempt: number,
 *   stop_requested: boolean, settings: Record<string, any> | null, goal: Goal | null,
 *   goal_reached_at: string | null, goal_train_seconds: number | null,
 *   delivery: Delivery | null, ranks: Rank[],
 * }} Run
 */

export {};
