package mesh

// SDS names of a proxy's mesh identity, which its agent serves.
const (
	// OwnCertificate is the proxy's certificate with its private key.
	OwnCertificate = "default"
	// MeshRoots are the CA certificates that verify other proxies.
	MeshRoots = "ROOTCA"
)

// Credentials are the SDS names of a proxy's credentials for connections with other proxies. The
// zero value is none.
type Credentials struct {
	// Certificate is the proxy's certificate with its private key, and Roots the CA certificates
	// that verify the peer.
	Certificate, Roots string
}

// NoIdentity is the value of NodeMetadata.Identity if the agent gets no certificates from the mesh.
const NoIdentity = "none"

// ClientCredentials returns the credentials for calls to other proxies: the three client files if
// all are set, otherwise the agent's credentials. They are zero if the agent has none or there is
// no agent.
func (m NodeMetadata) ClientCredentials() Credentials {
	if m.TLSClientCertChain != "" && m.TLSClientKey != "" && m.TLSClientRootCert != "" {
		return Credentials{FileCertificate(m.TLSClientCertChain, m.TLSClientKey), FileRoots(m.TLSClientRootCert)}
	}
	return m.fromAgent()
}

// ServerCredentials returns the credentials for calls from other proxies: the server files if
// certificate and key are set. The roots are then the mesh's, unless a root file is set too.
// Otherwise it returns the agent's credentials, which may be zero.
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

// AgentCluster is the static cluster of the agent's SDS server. AgentFilesCluster is the one for
// certificate files, if another server provides the workload's identity. The names are Istio's.
const (
	AgentCluster      = "sds-grpc"
	AgentFilesCluster = "sds-files-grpc"
)

// FileServer returns the static cluster of the agent's SDS server for certificate files, or "" if
// the proxy has no agent. That is AgentFilesCluster if the agent announces it (FILE_CREDENTIAL),
// otherwise AgentCluster.
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

// An SDS server of the user beside a proxy: the cluster through which the proxy calls it, and its
// socket, relative to the working directory of the proxy. Both are Istio's.
const (
	CredentialServerCluster = "sds-external"
	CredentialServerSocket  = "./var/run/secrets/credential-uds/socket"
)

// HasCredentialServer reports whether the agent has found an SDS server at CredentialServerSocket.
func (m NodeMetadata) HasCredentialServer() bool { return m.Credential == "true" }

// fromAgent returns the credentials that the agent serves. They are zero if there is no agent, or
// the agent gets no certificates from the mesh.
func (m NodeMetadata) fromAgent() Credentials {
	if m.IstioVersion == "" || m.Identity == NoIdentity {
		return Credentials{}
	}
	return Credentials{OwnCertificate, MeshRoots}
}
