package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// proxyConfigAnnotation holds the proxy settings of a WorkloadGroup.
const proxyConfigAnnotation = "proxy.istio.io/config"

// The labels of a workload's canonical service and revision.
const (
	canonicalService  = "service.istio.io/canonical-name"
	canonicalRevision = "service.istio.io/canonical-revision"
)

// proxyConfig returns the proxy settings of a group: a copy of the mesh's defaults, into which the
// annotations proxy.istio.io/config of the group and then of its template are merged (lists are
// appended). It sets the discovery address, the readiness probe and the metadata with the
// workload's identity (addIdentity). It returns an error for an invalid annotation.
func proxyConfig(m *meshconfig.MeshConfig, g Group, o Options) (*meshconfig.ProxyConfig, error) {
	c := new(meshconfig.ProxyConfig)
	if m.DefaultConfig != nil {
		c = proto.CloneOf(m.DefaultConfig)
	}
	metadata := maps.Clone(c.ProxyMetadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	for _, annotations := range []map[string]string{g.Annotations, g.Spec.Metadata.Annotations} {
		text, ok := annotations[proxyConfigAnnotation]
		if !ok {
			continue
		}
		overrides := new(meshconfig.ProxyConfig)
		if err := unmarshalYAML([]byte(text), overrides); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", proxyConfigAnnotation, err)
		}
		maps.Copy(metadata, overrides.ProxyMetadata)
		proto.Merge(c, overrides)
	}
	c.DiscoveryAddress = discoveryAddress(c, o)
	c.ReadinessProbe = g.Spec.Probe
	c.ProxyMetadata = metadata
	return c, addIdentity(metadata, m, c, g, o)
}

// addIdentity adds the workload's identity and ports, and the settings in o, to metadata, in the
// variables that the agent reads. It deletes variables with empty values, so that the agent's
// defaults apply.
func addIdentity(
	metadata map[string]string,
	m *meshconfig.MeshConfig,
	c *meshconfig.ProxyConfig,
	g Group,
	o Options,
) error {
	template := g.Spec.Template
	labels := map[string]string{}
	maps.Copy(labels, g.Spec.Metadata.Labels)
	maps.Copy(labels, template.Labels)
	service, revision := canonicalLabels(labels, g.Name)
	labels[canonicalService], labels[canonicalRevision] = service, revision
	text, err := json.Marshal(labels)
	if err != nil {
		return fmt.Errorf("encode the labels: %w", err)
	}
	maps.Copy(metadata, map[string]string{
		"CANONICAL_SERVICE":        service,
		"CANONICAL_REVISION":       revision,
		"POD_NAMESPACE":            g.Namespace,
		"SERVICE_ACCOUNT":          template.ServiceAccount,
		"TRUST_DOMAIN":             m.TrustDomain,
		"ISTIO_META_CLUSTER_ID":    o.Cluster,
		"ISTIO_META_MESH_ID":       c.MeshId,
		"ISTIO_META_NETWORK":       template.Network,
		"ISTIO_META_WORKLOAD_NAME": g.Name,
		"ISTIO_METAJSON_LABELS":    string(text),
	})
	for name, value := range metadata {
		if value == "" {
			delete(metadata, name) // the agent's default applies
		}
	}
	if len(template.Ports) > 0 {
		type port struct {
			Name          string `json:"name"`
			ContainerPort uint32 `json:"containerPort"`
			Protocol      string `json:"protocol"`
		}
		var ports []port
		for _, name := range slices.Sorted(maps.Keys(template.Ports)) {
			ports = append(ports, port{name, template.Ports[name], ""})
		}
		text, err := json.Marshal(ports)
		if err != nil {
			return fmt.Errorf("encode the ports: %w", err)
		}
		metadata["ISTIO_META_POD_PORTS"] = string(text)
	}
	if o.CaptureDNS {
		metadata["ISTIO_META_DNS_CAPTURE"] = "true"
	}
	if o.AutoRegister {
		metadata["ISTIO_META_AUTO_REGISTER_GROUP"] = g.Name
	}
	return nil
}

// canonicalLabels returns the canonical service and revision. The service is the first of
// service.istio.io/canonical-name, app.kubernetes.io/name and app that is not empty, or else
// otherwise. The revision is the first of service.istio.io/canonical-revision,
// app.kubernetes.io/version and version, or else "latest".
func canonicalLabels(labels map[string]string, otherwise string) (service, revision string) {
	first := func(otherwise string, names ...string) string {
		for _, n := range names {
			if v := labels[n]; v != "" {
				return v
			}
		}
		return otherwise
	}
	return first(
		otherwise,
		canonicalService,
		"app.kubernetes.io/name",
		"app",
	), first("latest", canonicalRevision, "app.kubernetes.io/version", "version")
}

// meshFile returns mesh.yaml: the proxy settings as the agent reads them. They are below
// defaultConfig.
func meshFile(c *meshconfig.ProxyConfig) ([]byte, error) {
	asJSON, err := protojson.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the proxy configuration: %w", err)
	}
	text, err := yaml.JSONToYAML(append(append([]byte(`{"defaultConfig":`), asJSON...), '}'))
	if err != nil {
		return nil, fmt.Errorf("encode the proxy configuration: %w", err)
	}
	return text, nil
}

// environmentFile returns cluster.env: the variables of istio-start.sh and the agent, sorted, with
// their values quoted for a shell. Without ports in the group, all are captured. It sets CA_ADDR
// for a revision, and ISTIO_SVC_IP for an address in o; for an external one it also has the agent
// probe localhost. Its own values replace variables of the proxy metadata.
func environmentFile(c *meshconfig.ProxyConfig, g Group, o Options) []byte {
	template := g.Spec.Template
	inbound := "*"
	if len(template.Ports) > 0 {
		var ports []string
		for _, p := range slices.Sorted(maps.Values(template.Ports)) {
			ports = append(ports, strconv.FormatUint(uint64(p), 10))
		}
		inbound = strings.Join(ports, ",")
	}
	all := maps.Clone(c.ProxyMetadata)
	maps.Copy(all, map[string]string{
		"ISTIO_INBOUND_PORTS":       inbound,
		"ISTIO_NAMESPACE":           g.Namespace,
		"ISTIO_SERVICE":             g.Name + "." + g.Namespace,
		"ISTIO_SERVICE_CIDR":        "*",
		"ISTIO_LOCAL_EXCLUDE_PORTS": excludedPorts(c),
		"SERVICE_ACCOUNT":           template.ServiceAccount,
	})
	if hasRevision(o.Revision) {
		all["CA_ADDR"] = controlPlaneAddress(o)
	}
	switch {
	case o.InternalAddress != "":
		all["ISTIO_SVC_IP"] = o.InternalAddress
	case o.ExternalAddress != "":
		all["ISTIO_SVC_IP"] = o.ExternalAddress
		all["REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION"] = "true"
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(name + "=" + quoteShell(all[name]) + "\n")
	}
	return []byte(b.String())
}

// excludedPorts returns the ports that are not captured, separated by commas: 15090, 15021 and the
// status port of the agent, and 22, so that a misconfiguration cannot block SSH. The status port is
// 15020 if unset. If it is 15090 or 15021 it is not repeated.
func excludedPorts(c *meshconfig.ProxyConfig) string {
	list := "22,15090,15021"
	switch port := c.GetStatusPort(); port {
	case 15090, 15021:
		return list
	case 0:
		return list + ",15020"
	default:
		return list + "," + strconv.Itoa(int(port))
	}
}

// quoteShell returns a value as one word of a shell, quoted only if necessary. Quotes in it are
// kept.
func quoteShell(value string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_=+:,./@%", r)
	}
	if value != "" && strings.IndexFunc(value, func(r rune) bool { return !plain(r) }) < 0 {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'"'"'`) + "'"
}
