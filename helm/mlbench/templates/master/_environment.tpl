{{/* The environment of both containers of the master. */}}
{{- define "mlbench.masterEnvironment" -}}
{{- $name := include "mlbench.fullname" . -}}
- name: MLBENCH_POOL
  value: kubernetes
- name: MLBENCH_NAMESPACE
  value: {{ .Release.Namespace }}
- name: MLBENCH_OWNER
  value: {{ $name }}-master
- name: MLBENCH_WORKER_MANIFEST
  value: /etc/mlbench/worker.json
- name: MLBENCH_WORKERS
  value: {{ .Values.worker.replicas | quote }}
- name: MLBENCH_LIMIT_WORKERS
  value: {{ .Values.limits.workers | quote }}
- name: MLBENCH_LIMIT_CPUS
  value: {{ .Values.limits.cpu | quote }}
- name: MLBENCH_LIMIT_GPUS
  value: {{ .Values.limits.gpu | quote }}
- name: MLBENCH_LIMIT_SERIES
  value: {{ .Values.limits.series | int | quote }}
{{- with .Values.limits.bandwidth }}
- name: MLBENCH_LIMIT_BANDWIDTH
  value: {{ . | toJson | quote }}
{{- end }}
- name: MLBENCH_START_SECONDS
  value: {{ .Values.worker.startSeconds | int | quote }}
- name: MLBENCH_IDLE_SECONDS
  value: {{ .Values.worker.idleSeconds | int | quote }}
- name: MLBENCH_HOME
  value: /var/lib/mlbench
{{- with .Values.archive.url }}
- name: MLBENCH_ARCHIVE
  value: {{ . | quote }}
{{- end }}
- name: MLBENCH_ARCHIVE_DAYS
  value: {{ .Values.archive.days | int | quote }}
- name: MLBENCH_QUEUE
  value: {{ .Values.master.queue }}
- name: MLBENCH_CONCURRENT_RUNS
  value: {{ .Values.master.concurrentRuns | int | quote }}
- name: MLBENCH_URL
  value: {{ include "mlbench.browserUrl" . | quote }}
{{- with include "mlbench.grafanaBrowserUrl" . }}
- name: GRAFANA_PUBLIC_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.master.trustedProxies }}
- name: MLBENCH_TRUSTED_PROXIES
  value: {{ join "," . | quote }}
{{- end }}
- name: MLBENCH_ALLOWED_HOSTS
  value: {{ include "mlbench.allowedHosts" . | quote }}
{{- if .Values.prometheus.enabled }}
{{ include "mlbench.secretEnv" (list . "MLBENCH_PROMETHEUS_PASSWORD" "prometheus-password") }}
- name: MLBENCH_PROMETHEUS_URL
  value: {{ include "mlbench.prometheusLoginUrl" (list . (printf "%s-prometheus" $name)) | quote }}
{{- else }}
{{- include "mlbench.ownPrometheusLogin" . }}
- name: MLBENCH_PROMETHEUS_URL
  value: {{ include "mlbench.ownPrometheusUrl" (list . .Values.prometheus.url) | quote }}
{{- with .Values.prometheus.writeUrl }}
- name: MLBENCH_PROMETHEUS_WRITE_URL
  value: {{ include "mlbench.ownPrometheusUrl" (list $ .) | quote }}
{{- end }}
{{- end }}
- name: MLBENCH_SCRAPE_INTERVAL
  value: {{ .Values.prometheus.scrapeInterval }}
{{- if or .Values.database.url .Values.database.existingSecret }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "mlbench.databaseSecretName" . }}
      key: {{ .Values.database.existingSecretKey }}
{{- end }}
{{- end }}

{{/* The secrets of the API, which the controller does not get. */}}
{{- define "mlbench.apiEnvironment" -}}
{{ include "mlbench.secretEnv" (list . "MLBENCH_TOKEN" "token") }}
{{ include "mlbench.secretEnv" (list . "MLBENCH_AGENT_SECRET" "agent-secret") }}
{{- $images := list }}
{{- range $framework, $image := .Values.worker.frameworkImages }}
{{- $images = append $images (printf "%s=%s" $framework $image) }}
{{- end }}
{{- with $images }}
- name: MLBENCH_FRAMEWORK_IMAGES
  value: {{ join "," . | quote }}
{{- end }}
{{- if (.Values.master.signIn).existingSecret }}
# The address of oauth2-proxy: workers, and everything else outside this pod, have others.
- name: MLBENCH_SIGN_IN_PROXIES
  value: 127.0.0.1
{{- end }}
{{- end }}

{{- define "mlbench.allowedHosts" -}}
{{- $name := printf "%s-master" (include "mlbench.fullname" .) -}}
{{- $space := printf "%s.%s" $name .Release.Namespace -}}
{{- $hosts := list $name $space (printf "%s.svc" $space) (printf "%s.svc.cluster.local" $space) -}}
{{- $ingress := .Values.master.ingress -}}
{{- if $ingress.enabled }}{{ $hosts = append $hosts $ingress.host }}{{ end -}}
{{- with .Values.master.url }}{{ $hosts = append $hosts (index (regexSplit ":" (urlParse .).host -1) 0) }}{{ end -}}
{{- concat $hosts (.Values.master.allowedHosts | default list) | uniq | join "," -}}
{{- end }}

{{/* The webhook for ends and hangs of runs, which only the controller calls. */}}
{{- define "mlbench.notifyEnvironment" -}}
{{- with (.Values.notify).existingSecret }}
- name: MLBENCH_NOTIFY_URL
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: url
{{- end }}
{{- end }}

{{/* A Grafana outside of the chart, to which the controller pushes the dashboards. */}}
{{- define "mlbench.grafanaEnvironment" -}}
{{- if .Values.grafana.url }}
- name: GRAFANA_URL
  value: {{ .Values.grafana.url | quote }}
- name: GRAFANA_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.grafana.existingSecret }}
      key: token
- name: GRAFANA_PROMETHEUS_URL
  {{- if .Values.grafana.prometheusUrl }}
  value: {{ .Values.grafana.prometheusUrl | quote }}
  {{- else if .Values.prometheus.enabled }}
  value: {{ include "mlbench.prometheusLoginUrl" (list . (printf "%s-prometheus.%s" (include "mlbench.fullname" .) .Release.Namespace)) | quote }}
  {{- else }}
  value: {{ include "mlbench.ownPrometheusUrl" (list . .Values.prometheus.url) | quote }}
  {{- end }}
{{- end }}
{{- end }}
