package table

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Service is a Kubernetes Service with its pods, in short: "{name: reviews, ports: [http 80],
// versions: [v1, v2]}".
type Service struct {
	Name string `json:"name"`
	// Namespace is "shop" by default.
	Namespace string `json:"namespace"`
	// Ports are "NAME NUMBER [TARGET]"; by default "http 80 8080". TARGET is 8080 by default.
	Ports []string `json:"ports"`
	// Versions are the pods' values of the label version, by default v1 alone.
	Versions []Version `json:"versions"`
	Headless bool      `json:"headless"`
	// ExternalName makes it another name of a host.
	ExternalName string            `json:"externalName"`
	Annotations  map[string]string `json:"annotations"`
	Labels       map[string]string `json:"labels"`

	ClusterIP netip.Addr `json:"-"`
	instances map[string]netip.Addr
	pods      []pod
}

// Version is a set of identical pods. Its short form is only the name.
type Version struct {
	Name string `json:"name"`
	// Count is the number of pods (default 1).
	Count int `json:"count"`
	// Locality is "region.zone.subzone".
	Locality string            `json:"locality"`
	Labels   map[string]string `json:"labels"`
}

// UnmarshalJSON decodes a name, or an object with all fields.
func (v *Version) UnmarshalJSON(text []byte) error {
	v.Count = 1
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &v.Name)
	}
	type plain Version
	return json.Unmarshal(text, (*plain)(v))
}

type pod struct {
	name    string
	address netip.Addr
	labels  map[string]string
}

// addresses allocates addresses, each once.
type addresses struct{ service, pod netip.Addr }

func newAddresses() *addresses {
	return &addresses{netip.MustParseAddr("10.96.4.0"), netip.MustParseAddr("10.66.16.0")}
}

// nextAddress returns the next address that is not the first or last of its network.
func nextAddress(a *netip.Addr) netip.Addr {
	for {
		*a = a.Next()
		if last := a.As4()[3]; last != 0 && last != 255 {
			return *a
		}
	}
}

// defaultTarget is the port at which backends listen by default.
const defaultTarget = "8080"

func (s *Service) setDefaults(a *addresses) {
	if s.Namespace == "" {
		s.Namespace = "shop"
	}
	if s.Ports == nil {
		s.Ports = []string{"http 80"}
	}
	if s.ExternalName != "" {
		return
	}
	if s.Versions == nil {
		s.Versions = []Version{{Name: "v1", Count: 1}}
	}
	if !s.Headless {
		s.ClusterIP = nextAddress(&a.service)
	}
	s.instances = map[string]netip.Addr{}
	for _, v := range s.Versions {
		for i := range v.Count {
			p := pod{
				name:    fmt.Sprintf("%s-%s-%d", s.Name, v.Name, i),
				address: nextAddress(&a.pod),
				labels:  map[string]string{"app": s.Name, "version": v.Name},
			}
			for name, value := range v.Labels {
				p.labels[name] = value
			}
			if v.Locality != "" {
				p.labels["istio-locality"] = v.Locality
			}
			s.pods = append(s.pods, p)
			s.instances[p.name] = p.address
		}
	}
}

// fullNames returns the service's full name.
func (s *Service) fullNames() []string {
	return []string{s.Name + "." + s.Namespace + ".svc.cluster.local"}
}

// renderManifest writes the Service and its Pods.
func (s *Service) renderManifest() string {
	spec := map[string]any{"ports": s.portList()}
	switch {
	case s.ExternalName != "":
		spec["type"], spec["externalName"] = "ExternalName", s.ExternalName
	case s.Headless:
		spec["clusterIP"] = "None"
	default:
		spec["clusterIP"] = s.ClusterIP.String()
	}
	if s.ExternalName == "" {
		spec["selector"] = map[string]string{"app": s.Name}
	}
	docs := []string{
		renderObject("v1", "Service", objectMeta(s.Namespace, s.Name, s.Labels, s.Annotations), "spec", spec),
	}
	for _, p := range s.pods {
		docs = append(docs, podManifest(objectMeta(s.Namespace, p.name, p.labels, nil), p.address))
	}
	return strings.Join(docs, "\n---\n")
}

func (s *Service) portList() []map[string]any {
	var list []map[string]any
	for _, text := range s.Ports {
		f := append(strings.Fields(text), defaultTarget)
		number, _ := strconv.Atoi(f[1])
		target, _ := strconv.Atoi(f[2])
		list = append(list, map[string]any{"name": f[0], "port": number, "targetPort": target})
	}
	return list
}

// renderManifest writes the Pod of a caller.
func (c *Caller) renderManifest() string {
	var annotations map[string]string
	if c.Gateway {
		annotations = map[string]string{"inject.istio.io/templates": "gateway"}
	}
	return podManifest(objectMeta(c.Namespace, c.Name, c.Labels, annotations), c.Address)
}

func podManifest(meta map[string]any, address netip.Addr) string {
	return renderObject(
		"v1",
		"Pod",
		meta,
		"spec",
		map[string]any{
			"serviceAccountName": "default",
			"nodeName":           "this-machine",
			"containers":         []any{map[string]string{"name": "main", "image": "pause"}},
		},
		"status",
		map[string]any{
			"phase": "Running", "podIP": address.String(), "podIPs": []any{map[string]string{"ip": address.String()}},
			"conditions": []any{map[string]string{"type": "Ready", "status": "True"}},
		},
	)
}

func objectMeta(namespace, name string, labels, annotations map[string]string) map[string]any {
	m := map[string]any{"namespace": namespace, "name": name}
	if labels != nil {
		m["labels"] = labels
	}
	if annotations != nil {
		m["annotations"] = annotations
	}
	return m
}

// renderObject writes an object as JSON, which is YAML.
func renderObject(version, kind string, meta map[string]any, fields ...any) string {
	object := map[string]any{"apiVersion": version, "kind": kind, "metadata": meta}
	for i := 0; i+1 < len(fields); i += 2 {
		object[fields[i].(string)] = fields[i+1]
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic("table: " + err.Error()) // maps and strings always encode
	}
	return string(text)
}
