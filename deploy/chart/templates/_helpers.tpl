{{/* Labels of every object, beside those that deploy/base has. */}}
{{- define "paddock.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The labels that select the pods of a group. Its input is the name of the group. */}}
{{- define "paddock.selector" -}}
app.kubernetes.io/name: paddock
paddock-project.github.io/group: {{ . }}
{{- end }}

{{/* The name of a group's objects. */}}
{{- define "paddock.name" -}}
{{- if eq . "default" }}paddock{{ else }}paddock-{{ . }}{{ end }}
{{- end }}

{{/* The name of an image. Its input is its values. */}}
{{- define "paddock.image" -}}
{{- with . }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}{{ end }}
{{- end }}

{{/*
The selector of a group's nodes. Its input is a list: the group's name and the group.
*/}}
{{- define "paddock.nodeSelector" -}}
{{- $name := index . 0 }}
{{- $group := index . 1 | default dict }}
{{- $default := dict "paddock-node" (ternary "true" $name (eq $name "default")) }}
{{- merge (dict "kubernetes.io/os" "linux") ($group.nodeSelector | default $default) | toYaml }}
{{- end }}

{{/*
Where the agents of a group run: its labels, unless the mode of the node is "observe". Nodes with the mode "manage" and
without another label are those of the group "default". Its input is a list: the group's name and the group.
*/}}
{{- define "paddock.placement" -}}
{{- $name := index . 0 }}
{{- $group := index . 1 | default dict }}
{{- $chosen := and (eq $name "default") (not $group.nodeSelector) -}}
nodeSelector:
  {{- if $chosen }}
  kubernetes.io/os: linux
  {{- else }}
  {{- include "paddock.nodeSelector" . | nindent 2 }}
  {{- end }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        {{- if $chosen }}
        - matchExpressions:
            - {key: paddock-node, operator: In, values: ["true"]}
            - {key: paddock-project.github.io/mode, operator: NotIn, values: [observe]}
        - matchExpressions:
            - {key: paddock-node, operator: DoesNotExist}
            - {key: paddock-project.github.io/mode, operator: In, values: [manage]}
        {{- else }}
        - matchExpressions:
            - {key: paddock-project.github.io/mode, operator: NotIn, values: [observe]}
        {{- end }}
{{- end }}

{{/*
The container of an agent, without its volumes. Its input is a list: the root, the address on which the agent listens, and its
resources.
*/}}
{{- define "paddock.container" -}}
{{- $root := index . 0 }}
{{- $host := include "paddock.host" (index . 1) }}
{{- $port := regexFind "[0-9]+$" (index . 1) | int }}
{{- $resources := index . 2 -}}
- name: agent
  image: {{ include "paddock.image" $root.Values.image | quote }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  args:
    - agent
    - --config
    - /etc/paddock/agent.yaml
    - --node-name=$(NODE_NAME)
    {{- if $root.Values.kubeletCertificate.verify }}
    - --kubelet-url=https://$(HOST_IP):10250
    {{- end }}
  env:
    - name: NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
    {{- if $root.Values.kubeletCertificate.verify }}
    - name: HOST_IP
      valueFrom:
        fieldRef:
          fieldPath: status.hostIP
    {{- end }}
  {{- if $root.Values.podMonitor.enabled }}
  ports:
    - name: metrics
      containerPort: {{ $port }}
  {{- end }}
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    runAsNonRoot: false
    privileged: false
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
    seccompProfile:
      type: RuntimeDefault
    {{- with $root.Values.seLinuxOptions }}
    seLinuxOptions:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  resources:
    {{- toYaml $resources | nindent 4 }}
  livenessProbe:
    httpGet:
      host: {{ $host | quote }}
      port: {{ $port }}
      path: /healthz
    {{- toYaml $root.Values.probes.liveness | nindent 4 }}
  readinessProbe:
    httpGet:
      host: {{ $host | quote }}
      port: {{ $port }}
      path: /readyz
    {{- toYaml $root.Values.probes.readiness | nindent 4 }}
{{- end }}

{{/*
The volume with the token of an agent. Its input is a list: the root, and whether the agent asks the API server.
*/}}
{{- define "paddock.token" -}}
{{- $root := index . 0 -}}
- name: token
  projected:
    defaultMode: 0400
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3600
      {{- if index . 1 }}
      - configMap:
          name: kube-root-ca.crt
          optional: true
          items:
            - {key: ca.crt, path: apiserver-ca.crt}
      {{- end }}
      {{- if $root.Values.kubeletCertificate.verify }}
      - configMap:
          name: {{ $root.Values.kubeletCertificate.caConfigMap }}
          items:
            - {key: ca.crt, path: ca.crt}
      {{- end }}
{{- end }}

{{/* The groups that choose nodes by labels of their own, as "groups.a, groups.b". */}}
{{- define "paddock.ownSelectors" -}}
{{- $names := list }}
{{- range $name, $group := .Values.groups }}
{{- if ($group | default dict).nodeSelector }}
{{- $names = append $names (printf "groups.%s" $name) }}
{{- end }}
{{- end }}
{{- join ", " $names }}
{{- end }}

{{/*
Whether there are observing agents. The values of a release from before them, which --reuse-values takes, do not have
them.
*/}}
{{- define "paddock.observes" -}}
{{- if (.Values.observe | default dict).enabled }}true{{ end }}
{{- end }}

{{/*
Whether nodes without a label are observed. Where the values do not say it, a new installation observes them, and an
upgrade goes on as the DaemonSet in the cluster does: without that DaemonSet, they were not observed.
*/}}
{{- define "paddock.observesUnlabelled" -}}
{{- $value := .Values.observe.unlabelledNodes }}
{{- if kindIs "bool" $value }}
{{- if $value }}true{{ end }}
{{- else if include "paddock.ownSelectors" . }}
{{- else if .Release.IsUpgrade }}
{{- $there := lookup "apps/v1" "DaemonSet" .Release.Namespace "paddock-observe" | default dict }}
{{- $required := dig "spec" "template" "spec" "affinity" "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" dict $there }}
{{- if gt (len ($required.nodeSelectorTerms | default list)) 1 }}true{{ end }}
{{- else }}true{{ end }}
{{- end }}

{{/* Which nodes are observed. */}}
{{- define "paddock.observedNodes" -}}
nodeSelector:
  kubernetes.io/os: linux
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions:
            - {key: paddock-project.github.io/mode, operator: In, values: [observe]}
        {{- if include "paddock.observesUnlabelled" . }}
        - matchExpressions:
            - {key: paddock-project.github.io/mode, operator: DoesNotExist}
            - {key: paddock-node, operator: DoesNotExist}
        {{- end }}
{{- end }}

{{/* How agents reach the kubelet and the API server, as fields of agent.yaml. */}}
{{- define "paddock.access" -}}
kubelet:
  tokenFile: /var/run/secrets/paddock/token
  {{- if .Values.kubeletCertificate.verify }}
  caFile: /var/run/secrets/paddock/ca.crt
  insecure: false
  {{- end }}
apiServer:
  url: in-cluster
  tokenFile: /var/run/secrets/paddock/token
  caFile: /var/run/secrets/paddock/apiserver-ca.crt
{{- end }}

{{/* The configuration of observing agents: what of .Values.agent is of use to them. */}}
{{- define "paddock.observing" -}}
{{- $agent := pick (deepCopy .Values.agent) "kubelet" "listen" "map" "profile" "log" }}
{{- $access := include "paddock.access" . | fromYaml }}
{{- $_ := set $access.kubelet "dir" "/var/lib/kubelet" }}
{{- $fixed := dict "decides" "kubelet" "machine" "live" "kubelet" $access.kubelet }}
{{- if .Values.publish.enabled }}
{{- $_ := set $fixed "apiServer" $access.apiServer }}
{{- $_ := set $fixed "publish" true }}
{{- end }}
{{- mergeOverwrite $agent $fixed | toYaml }}
{{- end }}

{{/* The users that write PaddockNodes, quoted for an expression. */}}
{{- define "paddock.publishers" -}}
{{- $users := list (printf "'system:serviceaccount:%s:paddock'" .Release.Namespace) }}
{{- if include "paddock.observes" . }}
{{- $users = append $users (printf "'system:serviceaccount:%s:paddock-observe'" .Release.Namespace) }}
{{- end }}
{{- join ", " $users }}
{{- end }}

{{/* Whether agents ask the API server. */}}
{{- define "paddock.asksAPI" -}}
{{- if or .Values.claims.apiServer .Values.publish.enabled .Values.publish.nodeResourceTopology }}true{{ end }}
{{- end }}

{{/* The agent's configuration of a group. Its input is a list: the root, and the group. */}}
{{- define "paddock.agent" -}}
{{- $root := index . 0 }}
{{- $group := index . 1 | default dict }}
{{- $agent := mergeOverwrite (deepCopy $root.Values.agent) (deepCopy ($group.agent | default dict)) }}
{{- $devices := $group.devices | default $root.Values.devices }}
{{- $access := include "paddock.access" $root | fromYaml }}
{{- $fixed := dict
  "machine" "live"
  "kubeletConfig" "/etc/paddock/policy.yaml"
  "state" "/var/lib/paddock/state.json"
  "runtime" "nri"
  "nri" (dict "socket" "/var/run/nri/nri.sock")
  "kubelet" $access.kubelet
  "cgroupRoot" "/host/cgroup"
  "podResources" (dict "socket" "/run/paddock/podresources.sock")
}}
{{- if include "paddock.asksAPI" $root }}
{{- $_ := set $fixed "apiServer" $access.apiServer }}
{{- end }}
{{- if $root.Values.publish.enabled }}
{{- $_ := set $fixed "publish" true }}
{{- end }}
{{- if $root.Values.publish.nodeResourceTopology }}
{{- $_ := set $fixed "nodeResourceTopology" true }}
{{- end }}
{{- if $devices }}
{{- $_ := set $fixed "devices" "/etc/paddock/devices.yaml" }}
{{- end }}
{{- mergeOverwrite $agent $fixed | toYaml }}
{{- end }}

{{/* The files of a group's ConfigMap. Its input is a list: the root, and the group. */}}
{{- define "paddock.files" -}}
{{- $root := index . 0 }}
{{- $group := index . 1 | default dict }}
{{- $policy := mergeOverwrite (deepCopy $root.Values.policy) (deepCopy ($group.policy | default dict)) }}
agent.yaml: |
  {{- include "paddock.agent" . | nindent 2 }}
policy.yaml: |
  apiVersion: kubelet.config.k8s.io/v1beta1
  kind: KubeletConfiguration
  {{- toYaml (omit $policy "apiVersion" "kind") | nindent 2 }}
{{- with $group.devices | default $root.Values.devices }}
devices.yaml: |
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The users that hand over grants, quoted for an expression. */}}
{{- define "paddock.schedulers" -}}
{{- $all := list (printf "system:serviceaccount:%s:%s" .Release.Namespace .Values.scheduler.serviceAccount.name) }}
{{- $quoted := list }}
{{- range concat $all .Values.scheduler.users | uniq }}
{{- $quoted = append $quoted (squote .) }}
{{- end }}
{{- join ", " $quoted }}
{{- end }}

{{/* The subjects that get the scheduler's permissions. */}}
{{- define "paddock.schedulerSubjects" -}}
- kind: ServiceAccount
  name: {{ .Values.scheduler.serviceAccount.name }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* The same and the other users, who have the permissions of a kube-scheduler already. */}}
{{- define "paddock.schedulerUsers" -}}
{{ include "paddock.schedulerSubjects" . }}
{{- range .Values.scheduler.users }}
- kind: User
  name: {{ . | quote }}
  apiGroup: rbac.authorization.k8s.io
{{- end }}
{{- end }}

{{/* Whether the scheduler is the only one of the cluster. */}}
{{- define "paddock.onlyScheduler" -}}
{{- if eq .Values.scheduler.name "default-scheduler" }}true{{ end }}
{{- end }}

{{/* Whether it evicts pods. */}}
{{- define "paddock.evicts" -}}
{{- if not (regexMatch "^(0+(s|m|h))+$" .Values.scheduler.plugin.evictRejectedAfter) }}true{{ end }}
{{- end }}

{{/* The KubeSchedulerConfiguration. */}}
{{- define "paddock.schedulerConfig" -}}
{{- $lease := dict "resourceNamespace" .Release.Namespace "resourceName" "paddock-scheduler" }}
{{- if include "paddock.onlyScheduler" . }}
{{- /* The Lease of kube-scheduler: of the two, one schedules. */}}
{{- $lease = dict "resourceNamespace" "kube-system" "resourceName" "kube-scheduler" }}
{{- end }}
{{- $agents := dict "readiness" .Values.scheduler.plugin.agentReadiness "namespace" .Release.Namespace "matchLabels" (dict "app.kubernetes.io/name" "paddock") }}
{{- $args := merge (dict "agents" $agents "kueue" .Values.scheduler.kueue) (omit .Values.scheduler.plugin "agentReadiness" "weight" "managedNodes") }}
{{- with .Values.scheduler.plugin.managedNodes }}
{{- $_ := set $args "managedNodes" . }}
{{- end }}
{{- $profile := dict
  "schedulerName" .Values.scheduler.name
  "plugins" (dict
    "multiPoint" (dict "enabled" (list (dict "name" "Paddock" "weight" .Values.scheduler.plugin.weight)))
    "postFilter" (dict "enabled" (list (dict "name" "Paddock")))
    "bind" (dict "enabled" (list (dict "name" "Paddock"))))
  "pluginConfig" (list (dict "name" "Paddock" "args" $args))
}}
{{- $fixed := dict
  "apiVersion" "kubescheduler.config.k8s.io/v1"
  "kind" "KubeSchedulerConfiguration"
  "leaderElection" (merge (dict "leaderElect" true) $lease)
  "profiles" (list $profile)
}}
{{- mergeOverwrite (deepCopy .Values.scheduler.config) $fixed | toYaml }}
{{- end }}

{{/* The host that a probe asks: the address that the agent listens on, and loopback if it listens on all. */}}
{{- define "paddock.host" -}}
{{- $host := regexReplaceAll ":[0-9]+$" . "" | trimPrefix "[" | trimSuffix "]" }}
{{- if has $host (list "" "0.0.0.0" "::") }}127.0.0.1{{ else }}{{ $host }}{{ end }}
{{- end }}

{{/*
No node may be selected by two groups: two agents would overwrite each other's cpusets. Two selectors exclude each other
if they want different values of one label.
*/}}
{{- define "paddock.checkGroups" -}}
{{- $selectors := dict }}
{{- range $name, $group := .Values.groups }}
{{- if not (kindIs "invalid" $group) }}
{{- $_ := set $selectors $name (include "paddock.nodeSelector" (list $name $group) | fromYaml) }}
{{- end }}
{{- end }}
{{- range $a, $first := $selectors }}
{{- range $b, $second := $selectors }}
{{- if lt $a $b }}
{{- $apart := false }}
{{- range $label, $value := $first }}
{{- if and (hasKey $second $label) (ne $value (get $second $label)) }}
{{- $apart = true }}
{{- end }}
{{- end }}
{{- if not $apart }}
{{- fail (printf "groups.%s and groups.%s can select the same node: give their nodeSelectors different values of one label" $a $b) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $selectors }}
{{- fail "groups: expected at least one group, such as \"default: {}\"" }}
{{- end }}
{{- end }}

{{/* What the values contradict each other in. */}}
{{- define "paddock.check" -}}
{{- if and .Values.scheduler.enabled (not .Values.publish.enabled) }}
{{- fail "scheduler.enabled: a scheduler knows nodes by what their agents publish: set publish.enabled to true" }}
{{- end }}
{{- include "paddock.checkGroups" . }}
{{- if and (.Values.observe | default dict).unlabelledNodes (include "paddock.ownSelectors" .) }}
{{- fail (printf "observe.unlabelledNodes: %s can select a node without a label of Paddock: label the nodes that you want to observe with paddock-project.github.io/mode=observe" (include "paddock.ownSelectors" .)) }}
{{- end }}
{{- if and .Values.priorityClass.create (hasPrefix "system-" .Values.priorityClass.name) }}
{{- fail (printf "priorityClass.create: %q is a name of Kubernetes: choose one without \"system-\"" .Values.priorityClass.name) }}
{{- end }}
{{- range $name, $group := .Values.groups }}
{{- if not (kindIs "invalid" $group) }}
{{- $agent := mergeOverwrite (deepCopy $.Values.agent) (deepCopy ($group.agent | default dict)) }}
{{- if and $.Values.podMonitor.enabled (or (hasPrefix "127." $agent.listen) (hasPrefix "localhost:" $agent.listen) (hasPrefix "[::1]:" $agent.listen)) }}
{{- fail (printf "podMonitor.enabled: the agents of the group %s listen on %s, which Prometheus cannot reach: set agent.listen to \":9925\"" $name $agent.listen) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The configuration of paddock quiet, with what belongs to its volumes. */}}
{{- define "paddock.quiet" -}}
{{- $own := dict "root" "/host" }}
{{- $token := "/var/run/secrets/paddock/token" }}
{{- $_ := set $own "kubelet" (dict "url" .Values.agent.kubelet.url "tokenFile" $token "insecure" true) }}
{{- $_ := set $own "apiServer" (dict "url" "in-cluster" "tokenFile" $token "caFile" "/var/run/secrets/paddock/apiserver-ca.crt") }}
{{- with .Values.quiet.irqbalanceEnvironment }}
{{- $_ := set $own "irqbalance" (dict "sockets" "/run/irqbalance" "environment" (printf "/host%s" .)) }}
{{- end }}
{{- mergeOverwrite (deepCopy .Values.quiet.config) $own | toYaml }}
{{- end }}
