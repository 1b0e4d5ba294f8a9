{{/* Common parts of pods: security, images, placement. */}}

{{- define "mlbench.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "mlbench.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* image and imagePullPolicy of a container. Takes (list context settings). */}}
{{- define "mlbench.image" -}}
{{- $ := index . 0 -}}
{{- $image := (index . 1).image -}}
image: "{{ $image.repository }}:{{ $image.tag | default $.Chart.AppVersion }}"
imagePullPolicy: {{ $image.pullPolicy }}
{{- end }}

{{/* Where a pod runs, and with which pull secret. Takes (list context settings). */}}
{{- define "mlbench.placement" -}}
{{- $ := index . 0 -}}
{{- $settings := index . 1 -}}
{{- with $settings.imagePullSecret | default $.Values.imagePullSecret }}
imagePullSecrets:
  - name: {{ . }}
{{- end }}
{{- with $settings.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $settings.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- end }}

{{/* An entry of env that reads the chart's Secret. Takes (list context variable key). */}}
{{- define "mlbench.secretEnv" -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef:
      name: {{ include "mlbench.secretName" (index . 0) }}
      key: {{ index . 2 }}
{{- end }}

{{/* A claim. Takes (list context component settings). */}}
{{- define "mlbench.claim" -}}
{{- $ := index . 0 -}}
{{- $component := index . 1 -}}
{{- with index . 2 }}
{{- if and .enabled (not .existingClaim) -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ include "mlbench.fullname" $ }}-{{ $component }}
  labels:
    {{- include "mlbench.labels" (list $ $component) | nindent 4 }}
spec:
  accessModes: [ReadWriteOnce]
  {{- if not (kindIs "invalid" .storageClass) }}
  storageClassName: {{ .storageClass | quote }}
  {{- end }}
  resources:
    requests:
      storage: {{ .size }}
{{- end }}
{{- end }}
{{- end }}

{{/* The volume of such a claim. Takes (list context component settings). */}}
{{- define "mlbench.claimVolume" -}}
{{- $made := printf "%s-%s" (include "mlbench.fullname" (index . 0)) (index . 1) -}}
{{- with index . 2 -}}
{{- if .enabled -}}
persistentVolumeClaim:
  claimName: {{ .existingClaim | default $made }}
{{- else -}}
emptyDir:
  sizeLimit: {{ .size }}
{{- end }}
{{- end }}
{{- end }}
