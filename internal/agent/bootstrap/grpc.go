package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/agent/node"
)

// GRPCInput holds the parameters of the bootstrap of proxyless gRPC.
type GRPCInput struct {
	Node node.Node
	// DiscoverySocket is the Unix socket of the agent's xDS server. CertificateDir is where the
	// agent writes certificates, "" if it has none.
	DiscoverySocket, CertificateDir string
}

// grpcFile is the bootstrap of proxyless gRPC (proposal A27, and A29 for certificates).
type grpcFile struct {
	Servers      []grpcServer            `json:"xds_servers"`
	Node         json.RawMessage         `json:"node"`
	Certificates map[string]grpcProvider `json:"certificate_providers,omitempty"`
	// Inbound is the template of listener names for gRPC servers, as Istio's control plane names
	// them.
	Inbound string `json:"server_listener_resource_name_template"`
}

type grpcServer struct {
	URI         string           `json:"server_uri"`
	Credentials []grpcCredential `json:"channel_creds"`
	Features    []string         `json:"server_features"`
}

type grpcCredential struct {
	Type string `json:"type"`
}

type grpcProvider struct {
	Plugin string            `json:"plugin_name"`
	Config map[string]string `json:"config"`
}

// BuildGRPC returns the bootstrap file of proxyless gRPC, with absolute paths and GENERATOR=grpc in
// the node metadata. Without a CertificateDir it has no certificate provider, and the metadata has
// MESHPILOT_IDENTITY=none. in.Node is not changed. It returns an error if a path or the node cannot
// be converted.
func BuildGRPC(in GRPCInput) ([]byte, error) {
	socket, err := filepath.Abs(in.DiscoverySocket)
	if err != nil {
		return nil, fmt.Errorf("gRPC bootstrap: %w", err)
	}
	n := in.Node.Proto()
	n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for name, value := range in.Node.Struct.GetFields() {
		n.Metadata.Fields[name] = value
	}
	n.Metadata.Fields["GENERATOR"] = structpb.NewStringValue("grpc") // selects the control plane's gRPC configuration
	if in.CertificateDir == "" {
		// See mesh.NodeMetadata: gRPC rejects configuration that refers to a certificate provider
		// it does not have.
		n.Metadata.Fields["MESHPILOT_IDENTITY"] = structpb.NewStringValue("none")
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("gRPC bootstrap: %w", err)
	}
	f := grpcFile{
		Servers: []grpcServer{{
			URI: "unix://" + socket, Credentials: []grpcCredential{{"insecure"}}, Features: []string{"xds_v3"},
		}},
		Node: raw, Inbound: "xds.istio.io/grpc/lds/inbound/%s",
	}
	if in.CertificateDir != "" {
		dir, err := filepath.Abs(in.CertificateDir)
		if err != nil {
			return nil, fmt.Errorf("gRPC bootstrap: %w", err)
		}
		f.Certificates = map[string]grpcProvider{"default": {Plugin: "file_watcher", Config: map[string]string{
			"certificate_file": filepath.Join(dir, "cert-chain.pem"), "private_key_file": filepath.Join(dir, "key.pem"),
			"ca_certificate_file": filepath.Join(dir, "root-cert.pem"), "refresh_interval": "900s",
		}}}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(f); err != nil {
		return nil, fmt.Errorf("gRPC bootstrap: %w", err)
	}
	return out.Bytes(), nil
}
