{{/* The environment of the bundled Grafana, which reports nothing and downloads nothing. */}}
{{- define "mlbench.grafanaSettings" -}}
- name: MLBENCH_DASHBOARDS
  value: /etc/mlbench/dashboards
- name: MLBENCH_PROMETHEUS_URL
  value: {{ include "mlbench.prometheusUrl" . | quote }}
{{- if .Values.prometheus.enabled }}
- name: MLBENCH_PROMETHEUS_BASIC_AUTH
  value: "true"
- name: MLBENCH_PROMETHEUS_USER
  value: {{ include "mlbench.prometheusUser" . }}
{{ include "mlbench.secretEnv" (list . "MLBENCH_PROMETHEUS_PASSWORD" "prometheus-password") }}
{{- else if .Values.prometheus.existingSecret }}
- name: MLBENCH_PROMETHEUS_BASIC_AUTH
  value: "true"
{{- include "mlbench.ownPrometheusLogin" . }}
{{- end }}
- name: MLBENCH_SCRAPE_INTERVAL
  value: {{ .Values.prometheus.scrapeInterval }}
{{ include "mlbench.secretEnv" (list . "GF_SECURITY_ADMIN_PASSWORD" "grafana-password") }}
{{- with include "mlbench.grafanaBrowserUrl" . }}
- name: GF_SERVER_ROOT_URL
  value: {{ . | trimSuffix "/" }}/
{{- end }}
{{- $fixed := dict
  "GF_PATHS_DATA" "/var/lib/grafana"
  "GF_PATHS_LOGS" "/var/lib/grafana/log"
  "GF_PATHS_PLUGINS" "/var/lib/grafana/plugins"
  "GF_PATHS_PROVISIONING" "/etc/mlbench/provisioning"
  "GF_SERVER_HTTP_PORT" "3000"
  "GF_SECURITY_ADMIN_USER" "admin"
  "GF_SECURITY_ALLOW_EMBEDDING" "true"
  "GF_AUTH_ANONYMOUS_ENABLED" (.Values.grafana.anonymous | toString)
  "GF_AUTH_ANONYMOUS_ORG_ROLE" "Viewer"
  "GF_USERS_HOME_PAGE" "/d/mlbench-runs"
  "GF_ANALYTICS_REPORTING_ENABLED" "false"
  "GF_ANALYTICS_CHECK_FOR_UPDATES" "false"
  "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES" "false"
  "GF_ANALYTICS_FEEDBACK_LINKS_ENABLED" "false"
  "GF_NEWS_NEWS_FEED_ENABLED" "false"
  "GF_PLUGINS_PREINSTALL_DISABLED" "true"
  "GF_PLUGINS_PREINSTALL_AUTO_UPDATE" "false"
  "GF_PLUGINS_PUBLIC_KEY_RETRIEVAL_DISABLED" "true"
  "GF_SECURITY_DISABLE_GRAVATAR" "true"
  "GF_SNAPSHOTS_EXTERNAL_ENABLED" "false"
}}
{{- range $variable, $value := $fixed }}
- name: {{ $variable }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
