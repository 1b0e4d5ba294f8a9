{{/* Names and labels. The objects' names are fixed: master, exporter and clients find each other by them. */}}

{{- define "mlbench.fullname" -}}
{{ .Release.Name }}-mlbench
{{- end }}

{{/* The labels by which objects are selected; they never change. Takes (list context component). */}}
{{- define "mlbench.selectorLabels" -}}
{{- $ := index . 0 -}}
app: mlbench
component: {{ index . 1 }}
release: {{ $.Release.Name }}
{{- end }}

{{/* The labels of a pod: those of an object, without what changes with each version. */}}
{{- define "mlbench.podLabels" -}}
{{- $ := index . 0 -}}
{{ include "mlbench.selectorLabels" . }}
app.kubernetes.io/name: mlbench
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- with $.Values.extraLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mlbench.labels" -}}
{{- $ := index . 0 -}}
{{ include "mlbench.podLabels" . }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Names of objects without a namespace. */}}
{{- define "mlbench.clusterName" -}}
{{ .Release.Namespace }}-{{ include "mlbench.fullname" . }}
{{- end }}

{{- define "mlbench.secretName" -}}
{{ .Values.auth.existingSecret | default (include "mlbench.fullname" .) }}
{{- end }}

{{- define "mlbench.databaseSecretName" -}}
{{ .Values.database.existingSecret | default (printf "%s-database" (include "mlbench.fullname" .)) }}
{{- end }}

{{- define "mlbench.masterPort" -}}
{{- /* From 1.22 on, a pod may let itself use low ports. MLBench's own client calls the pods at 80. */ -}}
{{ semverCompare ">=1.22.0-0" .Capabilities.KubeVersion.Version | ternary 80 8000 }}
{{- end }}

{{/* How other pods call the master. */}}
{{- define "mlbench.masterUrl" -}}
http://{{ include "mlbench.fullname" . }}-master
{{- with .Values.master.service.port }}{{ if ne (int .) 80 }}:{{ . }}{{ end }}{{ end }}
{{- end }}

{{/* How a browser calls it. */}}
{{- define "mlbench.browserUrl" -}}
{{- $ingress := .Values.master.ingress -}}
{{- if .Values.master.url -}}
{{ .Values.master.url }}
{{- else if $ingress.enabled -}}
{{ empty $ingress.tlsSecret | ternary "http" "https" }}://{{ $ingress.host }}{{ $ingress.path }}
{{- else -}}
http://127.0.0.1:8000
{{- end }}
{{- end }}

{{- define "mlbench.prometheusUrl" -}}
{{- if .Values.prometheus.enabled -}}
http://{{ include "mlbench.fullname" . }}-prometheus:9090
{{- else -}}
{{ .Values.prometheus.url }}
{{- end }}
{{- end }}

{{/* The URL of the bundled Prometheus with its password, which Kubernetes puts there. Takes (list context host). */}}
{{- define "mlbench.prometheusLoginUrl" -}}
http://{{ include "mlbench.prometheusUser" (index . 0) }}:$(MLBENCH_PROMETHEUS_PASSWORD)@{{ index . 1 }}:9090
{{- end }}

{{/* A URL of your own Prometheus, with its login if there is one. Takes (list context url). */}}
{{- define "mlbench.ownPrometheusUrl" -}}
{{- $url := urlParse (index . 1) -}}
{{- $login := empty (index . 0).Values.prometheus.existingSecret | ternary "" "$(MLBENCH_PROMETHEUS_USER):$(MLBENCH_PROMETHEUS_PASSWORD)@" -}}
{{ printf "%s://%s%s%s" $url.scheme $login $url.host $url.path }}
{{- end }}

{{/* The login of your own Prometheus, if it asks for one. */}}
{{- define "mlbench.ownPrometheusLogin" -}}
{{- with .Values.prometheus.existingSecret }}
- name: MLBENCH_PROMETHEUS_USER
  valueFrom: {secretKeyRef: {name: {{ . }}, key: user}}
- name: MLBENCH_PROMETHEUS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: password}}
{{- end }}
{{- end }}

{{- define "mlbench.prometheusUser" -}}
mlbench
{{- end }}

{{/* How a browser calls Grafana, where that is known. */}}
{{- define "mlbench.grafanaBrowserUrl" -}}
{{- $ingress := .Values.grafana.ingress -}}
{{- if .Values.grafana.publicUrl -}}
{{ .Values.grafana.publicUrl }}
{{- else if and .Values.grafana.enabled $ingress.enabled -}}
{{ empty $ingress.tlsSecret | ternary "http" "https" }}://{{ $ingress.host }}
{{- else if not .Values.grafana.enabled -}}
{{ .Values.grafana.url }}
{{- end }}
{{- end }}

{{/*
What Prometheus scrapes in pods, as of the local stack; "instance" is the label of discovery that names
the target. Limits are several times what a target needs: one that runs wild is not scraped any more.
Where "own" is said, the target may say nothing else in the names that others rely on.
*/}}
{{- define "mlbench.jobs" -}}
jobs:
  - name: master
    component: master
    port: http
    honorLabels: false
    honorTimestamps: false
    sampleLimit: 50000
    bodySizeLimit: 20MB
    instance: __meta_kubernetes_pod_name
  - name: controller
    component: master
    port: metrics
    honorLabels: false
    honorTimestamps: false
    sampleLimit: 10000
    bodySizeLimit: 10MB
    instance: __meta_kubernetes_pod_name
  - name: exporter
    component: exporter
    port: metrics
    honorLabels: true
    honorTimestamps: true
    sampleLimit: 20000
    bodySizeLimit: 20MB
    instance: __meta_kubernetes_pod_node_name
  - name: workers
    component: worker
    port: metrics
    honorLabels: false
    honorTimestamps: false
    sampleLimit: 5000
    bodySizeLimit: 5MB
    instance: __meta_kubernetes_pod_name
    own: mlbench_worker_
{{- end }}

{{/* The names that others rely on, as a regular expression. */}}
{{- define "mlbench.reliedOn" -}}
mlbench_.*|container_.*|machine_.*|node_.*|kube.*|up|scrape_.*|ALERTS.*|.*:.*
{{- end }}

{{/* The name of a dashboard's ConfigMap. Takes (list context path). */}}
{{- define "mlbench.dashboardName" -}}
{{ include "mlbench.fullname" (index . 0) }}-dashboard-{{ index . 1 | base | trimPrefix "mlbench-" | trimSuffix ".json" }}
{{- end }}
