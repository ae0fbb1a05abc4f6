package mesh

// SDS names of the identity that a proxy has from the mesh. Its agent serves them.
const (
	// OwnCertificate is the proxy's certificate and its key.
	OwnCertificate = "default"
	// MeshRoots are the authorities that the certificates of other proxies are checked against.
	MeshRoots = "ROOTCA"
)

// Credentials are what a proxy has for connections with other proxies, as SDS names. The zero value is nothing.
type Credentials struct {
	// Certificate is its own, with its key, and Roots the authorities that the other side's is checked against.
	Certificate, Roots string
}

// noIdentity is what an agent of ours says where it gets no certificates from the mesh.
const noIdentity = "none"

// ClientCredentials gives what the proxy calls other proxies with: files if it says that it has three, or else what its agent
// serves. A proxy without an agent has none.
func (m NodeMetadata) ClientCredentials() Credentials {
	if m.TLSClientCertChain != "" && m.TLSClientKey != "" && m.TLSClientRootCert != "" {
		return Credentials{FileCertificate(m.TLSClientCertChain, m.TLSClientKey), FileRoots(m.TLSClientRootCert)}
	}
	return m.fromAgent()
}

// ServerCredentials gives what the proxy is called with by other proxies: files where it says that it has some, without a root of
// its own the mesh's, or else what its agent serves.
func (m NodeMetadata) ServerCredentials() Credentials {
	if m.TLSServerCertChain == "" || m.TLSServerKey == "" {
		return m.fromAgent()
	}
	c := Credentials{FileCertificate(m.TLSServerCertChain, m.TLSServerKey), MeshRoots}
	if m.TLSServerRootCert != "" {
		c.Roots = FileRoots(m.TLSServerRootCert)
	}
	return c
}

// AgentCluster is the static cluster by which proxies ask their agent for secrets. AgentFilesCluster is the one for secrets that are
// files, if another server has the workload's identity. The names are Istio's.
const (
	AgentCluster      = "sds-grpc"
	AgentFilesCluster = "sds-files-grpc"
)

// FileServer returns the static cluster by which the proxy's agent is asked for secrets that are files, "" if the proxy has no agent.
func (m NodeMetadata) FileServer() string {
	switch {
	case m.IstioVersion == "":
		return ""
	case m.FileCredential == "true":
		return AgentFilesCluster
	default:
		return AgentCluster
	}
}

func (m NodeMetadata) fromAgent() Credentials {
	if m.IstioVersion == "" || m.Identity == noIdentity {
		return Credentials{}
	}
	return Credentials{OwnCertificate, MeshRoots}
}
