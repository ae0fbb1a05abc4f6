package mesh

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// NodeMetadata is the part of Node.metadata that Istio defines, in the JSON form that agents write.
// Unknown keys are ignored. A value of an unexpected type leaves only its own field empty.
type NodeMetadata struct {
	ClusterID      string `json:"CLUSTER_ID,omitempty"`
	Namespace      string `json:"NAMESPACE,omitempty"`
	Name           string `json:"NAME,omitempty"`
	WorkloadName   string `json:"WORKLOAD_NAME,omitempty"`
	ServiceAccount string `json:"SERVICE_ACCOUNT,omitempty"`
	MeshID         string `json:"MESH_ID,omitempty"`
	Network        string `json:"NETWORK,omitempty"`
	// RequestedNetworkView lists the networks whose endpoints the proxy requests; empty requests
	// all.
	RequestedNetworkView StringList `json:"REQUESTED_NETWORK_VIEW,omitempty"`
	NodeName             string     `json:"NODE_NAME,omitempty"`
	// IstioVersion is the release of Istio that the agent is, or whose protocol it implements.
	// MeshpilotVersion is meshpilot's own key: the agent's release.
	IstioVersion     string     `json:"ISTIO_VERSION,omitempty"`
	MeshpilotVersion string     `json:"MESHPILOT_VERSION,omitempty"`
	InstanceIPs      StringList `json:"INSTANCE_IPS,omitempty"`
	// InterceptionMode is how traffic is redirected to the proxy: "REDIRECT", "TPROXY" or "NONE".
	InterceptionMode string            `json:"INTERCEPTION_MODE,omitempty"`
	Labels           map[string]string `json:"LABELS,omitempty"`
	Annotations      map[string]string `json:"ANNOTATIONS,omitempty"`
	// Generator is "grpc" for proxyless gRPC, and empty for Envoy.
	Generator string `json:"GENERATOR,omitempty"`
	// HTTPProxyPort is the port of the proxy's HTTP proxy for applications; "" means that of the
	// mesh (MeshConfig.proxyHttpPort), "0" none.
	HTTPProxyPort string `json:"HTTP_PROXY_PORT,omitempty"`
	// DNSCapture is set if the application resolves names through the agent, and DNSAutoAllocate if
	// the proxy then requests allocated addresses.
	DNSCapture      StringBool `json:"DNS_CAPTURE,omitempty"`
	DNSAutoAllocate StringBool `json:"DNS_AUTO_ALLOCATE,omitempty"`
	// IdleTimeout is the time after which the proxy closes idle connections, "300s" or "0s" for
	// never. "" means Envoy's defaults.
	IdleTimeout string `json:"IDLE_TIMEOUT,omitempty"`
	// InboundExactBalance and OutboundExactBalance make Envoy spread the connections of inbound and
	// outbound listeners evenly over its worker threads.
	InboundExactBalance  StringBool `json:"INBOUND_LISTENER_EXACT_BALANCE,omitempty"`
	OutboundExactBalance StringBool `json:"OUTBOUND_LISTENER_EXACT_BALANCE,omitempty"`
	// EnableSelfDiscovery reports that the proxy's bootstrap has the cluster LocalCluster.
	EnableSelfDiscovery StringBool `json:"ENABLE_SELF_DISCOVERY,omitempty"`
	// UnprivilegedPod is set if the proxy cannot listen on ports below 1024.
	UnprivilegedPod StringBool `json:"UNPRIVILEGED_POD,omitempty"`
	// TLSClientCertChain, TLSClientKey and TLSClientRootCert are files on the proxy's disk: its
	// client certificate, the private key, and the CA certificates that verify other proxies.
	TLSClientCertChain string `json:"TLS_CLIENT_CERT_CHAIN,omitempty"`
	TLSClientKey       string `json:"TLS_CLIENT_KEY,omitempty"`
	TLSClientRootCert  string `json:"TLS_CLIENT_ROOT_CERT,omitempty"`
	// HTTP10 is "1" if the proxy accepts HTTP/1.0 requests.
	HTTP10 string `json:"HTTP10,omitempty"`
	// TLSServerCertChain, TLSServerKey and TLSServerRootCert are files on the proxy's disk with its
	// server certificate, if it does not get one by SDS.
	TLSServerCertChain string `json:"TLS_SERVER_CERT_CHAIN,omitempty"`
	TLSServerKey       string `json:"TLS_SERVER_KEY,omitempty"`
	TLSServerRootCert  string `json:"TLS_SERVER_ROOT_CERT,omitempty"`
	// EnvoyStatusPort and EnvoyPrometheusPort are the ports on which Envoy serves readiness and
	// metrics (15021, 15090).
	EnvoyStatusPort     int `json:"ENVOY_STATUS_PORT,omitempty"`
	EnvoyPrometheusPort int `json:"ENVOY_PROMETHEUS_PORT,omitempty"`
	// EnvoySecureMetricsPort and EnvoySecureMergedMetricsPort are the ports on which Envoy serves
	// metrics with mutual TLS, 0 for none.
	EnvoySecureMetricsPort       int `json:"ENVOY_SECURE_METRICS_PORT,omitempty"`
	EnvoySecureMergedMetricsPort int `json:"ENVOY_SECURE_MERGED_METRICS_PORT,omitempty"`
	// SocketMark is meshpilot's own key: the SO_MARK of the proxy's upstream connections, if
	// capture recognizes them by mark instead of by user (see istio-iptables --proxy-mark); 0 sets
	// none.
	SocketMark StringInt `json:"MESHPILOT_SOCKET_MARK,omitempty"`
	// OnDemand is meshpilot's own key: the proxy fetches the clusters of services when it first
	// calls them (ADR 52).
	OnDemand StringBool `json:"MESHPILOT_ON_DEMAND,omitempty"`
	// FileCredential is "true" if the agent serves certificate files in a separate cluster
	// (sds-files-grpc), because another server provides the workload's identity.
	FileCredential string `json:"file-credential,omitempty"`
	// Credential is "true" if an SDS server of the user, beside the proxy, has the credentials
	// "sds://NAME".
	Credential string `json:"credential,omitempty"`
	// Identity is meshpilot's own key: "none" if the agent has no certificates of the mesh for its
	// proxy.
	Identity string `json:"MESHPILOT_IDENTITY,omitempty"`
	// PodPorts are the ports that the pod's containers declare.
	PodPorts PortList `json:"POD_PORTS,omitempty"`
	// AutoRegisterGroup is the WorkloadGroup to register the workload with. WorkloadEntry is the
	// entry that it already has.
	AutoRegisterGroup string `json:"AUTO_REGISTER_GROUP,omitempty"`
	WorkloadEntry     string `json:"WORKLOAD_ENTRY,omitempty"`
	// ProxyConfig is the agent's effective ProxyConfig in its protobuf JSON form.
	ProxyConfig json.RawMessage `json:"PROXY_CONFIG,omitempty"`

	// Strings contains all entries with string values, including unknown ones. An EnvoyFilter's
	// match.proxy.metadata is compared with it.
	Strings map[string]string `json:"-"`
}

// PortList is a list of container port numbers. Istio writes it as in pods: a list of objects, or
// that list as a string.
type PortList []uint32

// UnmarshalJSON appends the ports in [{"containerPort": 8080}], also inside of a string. It appends
// nothing for any other value, and leaves out invalid entries, without an error.
func (l *PortList) UnmarshalJSON(b []byte) error {
	ports, _ := parsePortList(b) // only ports without a service depend on it
	*l = append(*l, ports...)
	return nil
}

// PortListFault returns an error that describes the first invalid entry of a PortList in JSON, or
// why it is no list. It returns nil for a valid list and for an empty string.
func PortListFault(b []byte) error {
	_, err := parsePortList(b)
	return err
}

// parsePortList returns the valid ports in a PortList in JSON, which may also be in a JSON string.
// Entries without a containerPort from 1 to 65535 are skipped, and fault describes the first of
// them. For text that is no list there is a fault and no port. Both are nil for an empty string.
func parsePortList(b []byte) (ports []uint32, fault error) {
	var text string
	if json.Unmarshal(b, &text) == nil {
		b = []byte(text)
	}
	if len(b) == 0 {
		return nil, nil
	}
	var entries []json.RawMessage
	if json.Unmarshal(b, &entries) != nil {
		return nil, fmt.Errorf(`%.60q is not a list such as [{"containerPort": 8080}]`, b)
	}
	for i, entry := range entries {
		var p struct {
			Port uint32 `json:"containerPort"`
		}
		if json.Unmarshal(entry, &p) == nil && p.Port > 0 && p.Port <= math.MaxUint16 {
			ports = append(ports, p.Port)
		} else if fault == nil {
			fault = fmt.Errorf("entry %d, %.60q, has no containerPort from 1 to %d", i, entry, math.MaxUint16)
		}
	}
	return ports, fault
}

// MarshalJSON encodes a list of objects with the field containerPort, never null.
func (l PortList) MarshalJSON() ([]byte, error) {
	type port struct {
		Port uint32 `json:"containerPort"`
	}
	list := make([]port, 0, len(l))
	for _, p := range l {
		list = append(list, port{p})
	}
	return json.Marshal(list)
}

// StringList is a list that Istio writes as one comma-separated string.
type StringList []string

// MarshalJSON encodes "a,b".
func (l StringList) MarshalJSON() ([]byte, error) { return json.Marshal(strings.Join(l, ",")) }

// UnmarshalJSON decodes "a,b" or ["a","b"], and null as an empty list. An empty string leaves the
// list unchanged; any other value is an error.
func (l *StringList) UnmarshalJSON(b []byte) error {
	var list []string
	if json.Unmarshal(b, &list) == nil {
		*l = list
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s != "" {
		*l = strings.Split(s, ",")
	}
	return nil
}

// StringBool is a boolean that Istio writes as the string "true" or "false".
type StringBool bool

// MarshalJSON encodes "true" or "false" in quotes.
func (v StringBool) MarshalJSON() ([]byte, error) { return json.Marshal(strconv.FormatBool(bool(v))) }

// UnmarshalJSON decodes a boolean in a form that strconv.ParseBool accepts, with or without quotes.
// Other values are an error.
func (v *StringBool) UnmarshalJSON(b []byte) error {
	parsed, err := strconv.ParseBool(strings.Trim(string(b), `"`))
	*v = StringBool(parsed)
	return err
}

// StringInt is a number that is written as a string, as in environment variables.
type StringInt int

// MarshalJSON encodes the number in quotes.
func (v StringInt) MarshalJSON() ([]byte, error) { return json.Marshal(strconv.Itoa(int(v))) }

// UnmarshalJSON decodes a number, with or without quotes, and drops its fraction. Other values are
// an error.
func (v *StringInt) UnmarshalJSON(b []byte) error {
	parsed, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*v = StringInt(parsed)
	return err
}
