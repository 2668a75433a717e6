module github.com/paddock-project/paddock

go 1.26.0

require (
	github.com/google/cadvisor/lib v0.60.6
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	k8s.io/api v0.37.2 // indirect
	k8s.io/apimachinery v0.37.2 // indirect
	k8s.io/component-helpers v0.37.2 // indirect
	k8s.io/kubelet v0.37.2 // indirect
	pgregory.net/rapid v1.3.0 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)
