{{/* A Service and an Ingress that users call. Take (list context component settings). */}}

{{- define "mlbench.service" -}}
{{- $ := index . 0 -}}
{{- $component := index . 1 -}}
{{- $service := (index . 2).service -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "mlbench.fullname" $ }}-{{ $component }}
  labels:
    {{- include "mlbench.labels" (list $ $component) | nindent 4 }}
  {{- with $service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $service.type }}
  {{- with $service.loadBalancerSourceRanges }}
  loadBalancerSourceRanges:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # Its only pod: the API answers also while the controller beside it is not ready.
  publishNotReadyAddresses: true
  selector:
    {{- include "mlbench.selectorLabels" (list $ $component) | nindent 4 }}
  ports:
    - name: http
      port: {{ $service.port }}
      targetPort: http
      protocol: TCP
      {{- with $service.nodePort }}
      nodePort: {{ . }}
      {{- end }}
    {{- if ((index . 2).signIn).existingSecret }}
    - name: sign-in
      port: 4180
      targetPort: sign-in
      protocol: TCP
    {{- end }}
{{- end }}

{{- define "mlbench.ingress" -}}
{{- $ := index . 0 -}}
{{- $component := index . 1 -}}
{{- $port := empty ((index . 2).signIn).existingSecret | ternary "http" "sign-in" -}}
{{- with (index . 2).ingress }}
{{- $host := .host }}
{{- if .enabled -}}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ include "mlbench.fullname" $ }}-{{ $component }}
  labels:
    {{- include "mlbench.labels" (list $ $component) | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .tlsSecret }}
  tls:
    - secretName: {{ . }}
      hosts: [{{ $host }}]
  {{- end }}
  rules:
    - host: {{ .host }}
      http:
        paths:
          - path: {{ .path | default "/" }}
            pathType: Prefix
            backend:
              service:
                name: {{ include "mlbench.fullname" $ }}-{{ $component }}
                port: {name: {{ $port }}}
{{- end }}
{{- end }}
{{- end }}
