{{/* The workers, which the controller creates; it only changes what a run asks for. */}}
{{- define "mlbench.workerManifest" -}}
service:
  {{- include "mlbench.workerService" . | nindent 2 }}
statefulSet:
  {{- include "mlbench.workerStatefulSet" . | nindent 2 }}
initContainers:
  # Only where a limit of bandwidth, latency or loss is asked for.
  network:
    name: network
    {{- include "mlbench.image" (list . .Values.worker) | nindent 4 }}
    command: [python3, -P, -m, mlbench.contract.shaping]
    resources:
      {{- include "mlbench.workerResources" . | nindent 6 }}
    securityContext:
      runAsUser: 0
      runAsGroup: 0
      runAsNonRoot: false
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
        add: [NET_ADMIN]
  # Only where the run has an image of its own.
  agent:
    name: agent
    {{- include "mlbench.image" (list . .Values.worker) | nindent 4 }}
    command: [cp, /opt/mlbench/agent.pyz, {{ include "mlbench.agentFolder" . }}/agent.pyz]
    resources:
      {{- include "mlbench.workerResources" . | nindent 6 }}
    securityContext:
      {{- include "mlbench.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - {name: agent, mountPath: {{ include "mlbench.agentFolder" . }}}
{{- end }}

{{- define "mlbench.workerService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "mlbench.fullname" . }}-worker
  labels:
    {{- include "mlbench.podLabels" (list . "worker") | nindent 4 }}
spec:
  clusterIP: None
  # Ranks find each other while they start.
  publishNotReadyAddresses: true
  selector:
    {{- include "mlbench.selectorLabels" (list . "worker") | nindent 4 }}
  ports:
    - name: metrics
      port: 9500
      targetPort: metrics
      protocol: TCP
{{- end }}

{{- define "mlbench.workerStatefulSet" -}}
{{- $name := include "mlbench.fullname" . -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}-worker
  labels:
    {{- include "mlbench.podLabels" (list . "worker") | nindent 4 }}
    {{- with .Values.worker.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  replicas: {{ .Values.worker.replicas }}
  serviceName: {{ $name }}-worker
  podManagementPolicy: Parallel
  updateStrategy:
    type: OnDelete
  selector:
    matchLabels:
      {{- include "mlbench.selectorLabels" (list . "worker") | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "mlbench.podLabels" (list . "worker") | nindent 8 }}
        {{- with .Values.worker.labels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- include "mlbench.placement" (list . .Values.worker) | trim | nindent 6 }}
      securityContext:
        {{- include "mlbench.podSecurity" . | nindent 8 }}
      initContainers:
        # Makes the pod's own token of the secret, which the worker's image, any image, is not given.
        - name: token
          {{- include "mlbench.image" (list . .Values.worker) | nindent 10 }}
          command: [python3, -P, -m, mlbench.contract.pod_token, {{ include "mlbench.agentFolder" . }}/token]
          env:
            {{- include "mlbench.whichPod" . | nindent 12 }}
            {{- include "mlbench.secretEnv" (list . "MLBENCH_AGENT_SECRET" "agent-secret") | nindent 12 }}
          resources:
            {{- include "mlbench.workerResources" . | nindent 12 }}
          securityContext:
            {{- include "mlbench.containerSecurity" . | nindent 12 }}
          volumeMounts:
            - {name: agent, mountPath: {{ include "mlbench.agentFolder" . }}}
      containers:
        - name: worker
          {{- include "mlbench.image" (list . .Values.worker) | nindent 10 }}
          # Isolated: a process that may write here must not say what the next agent imports.
          command: [python3, -I, -m, mlbench_worker.agent]
          args:
            - --pod
            - $(MLBENCH_POD)
            - --folder
            - /var/lib/mlbench/attempts
            - --host
            - 0.0.0.0
            - --port
            - "9500"
            - --master
            - {{ include "mlbench.masterUrl" . }}
            - --token-file
            - {{ include "mlbench.agentFolder" . }}/token
          env:
            {{- include "mlbench.whichPod" . | nindent 12 }}
            - name: MLBENCH_DATASETS
              value: /datasets
            - name: HOME
              value: /var/lib/mlbench
            - name: OMP_NUM_THREADS
              value: {{ include "mlbench.workerThreads" . | quote }}
            {{- with .Values.worker.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: metrics
              containerPort: 9500
              protocol: TCP
          resources:
            {{- include "mlbench.workerResources" . | nindent 12 }}
          securityContext:
            {{- include "mlbench.containerSecurity" . | nindent 12 }}
          volumeMounts:
            - {name: state, mountPath: /var/lib/mlbench}
            # MLBench's own training code makes folders there.
            - {name: state, mountPath: /checkpoint, subPath: checkpoint}
            - {name: state, mountPath: /output, subPath: output}
            - {name: tmp, mountPath: /tmp}
            - {name: shm, mountPath: /dev/shm}
            - {name: agent, mountPath: {{ include "mlbench.agentFolder" . }}, readOnly: true}
            {{- if or .Values.gcePersistentDisk.enabled .Values.datasets.existingClaim }}
            - {name: datasets, mountPath: /datasets, readOnly: {{ or .Values.gcePersistentDisk.enabled .Values.datasets.readOnly }}}
            {{- else }}
            - {name: state, mountPath: /datasets, subPath: datasets}
            {{- end }}
      volumes:
        - name: state
          emptyDir: {sizeLimit: {{ .Values.worker.scratch }}}
        - name: tmp
          emptyDir: {sizeLimit: {{ .Values.worker.scratch }}}
        - name: shm
          emptyDir:
            medium: Memory
            sizeLimit: {{ .Values.worker.sharedMemory }}
        - name: agent
          emptyDir:
            medium: Memory
            sizeLimit: 8Mi
        {{- if .Values.gcePersistentDisk.enabled }}
        - name: datasets
          gcePersistentDisk:
            pdName: {{ .Values.gcePersistentDisk.pdName }}
            fsType: ext4
            readOnly: true
        {{- else if .Values.datasets.existingClaim }}
        - name: datasets
          persistentVolumeClaim:
            claimName: {{ .Values.datasets.existingClaim }}
            readOnly: {{ .Values.datasets.readOnly }}
        {{- end }}
{{- end }}

{{/* The agent's volume, to which no process of the worker can write. */}}
{{- define "mlbench.agentFolder" -}}
/run/mlbench
{{- end }}

{{/* Entries of env that say which pod it is. */}}
{{- define "mlbench.whichPod" -}}
- name: MLBENCH_POD
  valueFrom:
    fieldRef: {apiVersion: v1, fieldPath: metadata.name}
- name: MLBENCH_POD_UID
  valueFrom:
    fieldRef: {apiVersion: v1, fieldPath: metadata.uid}
{{- end }}

{{- define "mlbench.workerResources" -}}
{{- $cpu := .Values.limits.cpu | toString -}}
{{- $cores := dict "requests" (dict "cpu" $cpu) "limits" (dict "cpu" $cpu) -}}
{{- toYaml (merge $cores (deepCopy (.Values.worker.resources | default dict))) -}}
{{- end }}

{{/* limits.cpu as whole threads: 2 for 1500m. */}}
{{- define "mlbench.workerThreads" -}}
{{- $cpu := .Values.limits.cpu | toString -}}
{{- $cores := hasSuffix "m" $cpu | ternary (divf (trimSuffix "m" $cpu | float64) 1000) (float64 $cpu) -}}
{{- max 1 (ceil $cores | int) -}}
{{- end }}
