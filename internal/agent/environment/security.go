package environment

import (
	"math"
	"strings"
	"time"
)

// SystemRoots is the value of a roots variable that selects the roots of the operating system.
const SystemRoots = "SYSTEM"

// Files that are mounted into pods, relative to the working directory of Istio's images, which is
// the root directory.
const (
	tokenFile     = "./var/run/secrets/tokens/istio-token"
	meshRootsFile = "./var/run/secrets/istio/root-cert.pem"
)

// Security configures where the workload's identity comes from, and how the control plane is
// verified.
type Security struct {
	// CAAddress is the certificate authority's host:port (CA_ADDR). If empty, it is the control
	// plane.
	CAAddress string
	// CARoots and XDSRoots are the files of the roots that verify those servers (CA_ROOT_CA,
	// XDS_ROOT_CA). SystemRoots selects the operating system's roots. If empty, the other
	// variables decide.
	CARoots, XDSRoots string
	// CertProvider is the issuer of the control plane's own certificate (PILOT_CERT_PROVIDER,
	// default istiod).
	CertProvider string
	// MeshRoots is the file of the mesh's roots that is mounted into pods.
	MeshRoots string
	// ServerName is the name that the control plane's certificate must have (ISTIOD_SAN). If empty,
	// it is the host of the address.
	ServerName string
	// ProvisionedDir is a directory with key.pem, cert-chain.pem and root-cert.pem for the first
	// connection, put there before the agent starts, for instance on a virtual machine (PROV_CERT).
	// If empty, there is none.
	ProvisionedDir string
	// FileMounted uses certificates from files instead of requesting them from an authority
	// (FILE_MOUNTED_CERTS, default false).
	FileMounted bool
	// ClientFiles are these certificate files if the node metadata names them.
	ClientFiles CertificateFiles
	// Token is the file of the token that authenticates the workload (JWT_POLICY). If empty, there
	// is none.
	Token string
	// TokenForCSR sends the token with certificate signing requests (USE_TOKEN_FOR_CSR, default
	// true).
	TokenForCSR bool
	// CAHeaders and XDSHeaders are additional metadata of calls (CA_HEADER_NAME, XDS_HEADER_NAME).
	CAHeaders, XDSHeaders map[string]string
	// CertSigner is the signer name of Kubernetes certificate signing requests
	// (ISTIO_META_CERT_SIGNER).
	CertSigner string

	// TrustDomain is the workload's trust domain (TRUST_DOMAIN, default cluster.local).
	TrustDomain string
	// Lifetime is the requested lifetime of certificates (SECRET_TTL, default 24h).
	Lifetime time.Duration
	// GraceRatio is the fraction of the lifetime that remains when a certificate is renewed,
	// GraceJitter its random variation (SECRET_GRACE_PERIOD_RATIO, default 0.5;
	// SECRET_GRACE_PERIOD_RATIO_JITTER, default 0.01).
	GraceRatio, GraceJitter float64
	// RSABits is the size of RSA keys (WORKLOAD_RSA_KEY_SIZE). If 0, elliptic curve keys are used.
	RSABits int
	// Curve is P256 or P384 (ECC_CURVE, default P256).
	Curve string
	// PKCS8 encodes private keys in PKCS #8 (PKCS8_KEY, default false).
	PKCS8 bool
	// OutputDir is a directory to which certificates are written for other programs (OUTPUT_CERTS).
	// If empty, none are written.
	OutputDir string
	// OutputReaders selects who may read the private key there: ReadersOwner, ReadersGroup or
	// ReadersAll (MESHPILOT_OUTPUT_KEY_READERS). If empty, it is the owner, and with the gRPC
	// template also the group.
	OutputReaders string
	// FileSettle is how long a file must remain unchanged before it is read again
	// (FILE_DEBOUNCE_DURATION, default 100 ms).
	FileSettle time.Duration
	// Socket is the file name of the SDS socket (WORKLOAD_IDENTITY_SOCKET_FILE, default "socket").
	Socket string
}

// CertificateFiles are the files of a certificate, its key, and the roots to trust.
type CertificateFiles struct{ Chain, Key, Roots string }

// DefaultSocket is the default file name of the SDS socket.
const DefaultSocket = "socket"

// Values of MESHPILOT_OUTPUT_KEY_READERS.
const (
	ReadersOwner = "owner"
	ReadersGroup = "group"
	ReadersAll   = "all"
)

// readSecurity reads the settings of certificates and tokens, with their defaults. Invalid values
// and conflicts are added to r's errors. SECRET_TTL must be at least a second, the socket a name
// without a slash, the readers of the output owner, group or all. PROV_CERT excludes
// FILE_MOUNTED_CERTS.
func (r *reader) readSecurity() Security {
	s := Security{
		CAAddress: r.vars["CA_ADDR"], CARoots: r.vars["CA_ROOT_CA"], XDSRoots: r.vars["XDS_ROOT_CA"],
		CertProvider: r.readText("PILOT_CERT_PROVIDER", "istiod"), MeshRoots: meshRootsFile,
		ServerName: r.vars["ISTIOD_SAN"], ProvisionedDir: r.vars["PROV_CERT"],
		FileMounted: r.readBool("FILE_MOUNTED_CERTS", false),
		ClientFiles: CertificateFiles{
			Chain: r.vars["ISTIO_META_TLS_CLIENT_CERT_CHAIN"],
			Key:   r.vars["ISTIO_META_TLS_CLIENT_KEY"],
			Roots: r.vars["ISTIO_META_TLS_CLIENT_ROOT_CERT"],
		},
		Token: r.readTokenPath(), TokenForCSR: r.readBool("USE_TOKEN_FOR_CSR", true),
		CAHeaders: r.readPrefixed("CA_HEADER_"), XDSHeaders: r.readPrefixed("XDS_HEADER_"),
		CertSigner: r.vars["ISTIO_META_CERT_SIGNER"],

		TrustDomain: r.readText("TRUST_DOMAIN", "cluster.local"),
		Lifetime:    r.readDuration("SECRET_TTL", 24*time.Hour),
		GraceRatio:  r.readRatio("SECRET_GRACE_PERIOD_RATIO", 0.5),
		GraceJitter: r.readRatio("SECRET_GRACE_PERIOD_RATIO_JITTER", 0.01),
		PKCS8:       r.readBool("PKCS8_KEY", false),
		OutputDir:   r.vars["OUTPUT_CERTS"], OutputReaders: r.vars["MESHPILOT_OUTPUT_KEY_READERS"],
		FileSettle: r.readDuration("FILE_DEBOUNCE_DURATION", 100*time.Millisecond),
		Socket:     r.readText("WORKLOAD_IDENTITY_SOCKET_FILE", DefaultSocket),
	}
	r.readKeyType(&s)
	r.checkProviders()
	if strings.Contains(s.Socket, "/") {
		r.addError("WORKLOAD_IDENTITY_SOCKET_FILE", "%q: want a file name, not a path", s.Socket)
	}
	if s.ProvisionedDir != "" && s.FileMounted {
		r.addError("PROV_CERT", "conflicts with FILE_MOUNTED_CERTS: set only one of them")
	}
	switch s.OutputReaders {
	case "", ReadersOwner, ReadersGroup, ReadersAll:
	default:
		r.addError("MESHPILOT_OUTPUT_KEY_READERS", "%q: want owner, group or all", s.OutputReaders)
	}
	if s.Lifetime < time.Second {
		r.addError("SECRET_TTL", "%v is less than a second", s.Lifetime)
	}
	return s
}

// readKeyType sets s.Curve (default P256) and s.RSABits. RSABits is WORKLOAD_RSA_KEY_SIZE, but 0 if
// ECC_SIGNATURE_ALGORITHM is set. So keys are elliptic curve keys by default, which are smaller and
// faster; Istio's agent defaults to RSA. Curves other than P256 and P384, sizes other than 0 and
// 2048 to 8192, and algorithms other than ECDSA are added to r's errors.
func (r *reader) readKeyType(s *Security) {
	const algorithm, size, curve = "ECC_SIGNATURE_ALGORITHM", "WORKLOAD_RSA_KEY_SIZE", "ECC_CURVE"
	s.Curve = r.readText(curve, "P256")
	if s.Curve != "P256" && s.Curve != "P384" {
		r.addError(curve, "%q is neither P256 nor P384", s.Curve)
	}
	bits := r.readUint32(size, 0)
	if bits != 0 && (bits < 2048 || bits > 8192) {
		r.addError(size, "%d bits: want 2048 to 8192", bits)
	}
	switch name, _ := r.lookupText(algorithm); name {
	case "":
		s.RSABits = int(bits)
	case "ECDSA":
	default:
		r.addError(algorithm, "unknown algorithm %q: want ECDSA", name)
	}
}

// checkProviders adds an error for a CA_PROVIDER other than Citadel and one for a
// CREDENTIAL_FETCHER_TYPE other than JWT: the workload would wait forever for a certificate. Unset
// variables are valid.
func (r *reader) checkProviders() {
	switch name, _ := r.lookupText("CA_PROVIDER"); name {
	case "", "Citadel":
	default:
		r.addError("CA_PROVIDER", "%q is not supported: want Citadel, the authority of the control plane", name)
	}
	switch kind, _ := r.lookupText("CREDENTIAL_FETCHER_TYPE"); kind {
	case "", "JWT":
	default:
		r.addError("CREDENTIAL_FETCHER_TYPE", "%q is not supported: want JWT", kind)
	}
}

// readTokenPath returns the file of the workload's token: MESHPILOT_TOKEN_PATH, by default
// tokenFile. It returns "" if JWT_POLICY is set to another value than first-party-jwt or
// third-party-jwt, which use the same file.
func (r *reader) readTokenPath() string {
	switch policy, _ := r.lookupText("JWT_POLICY"); policy {
	case "", "third-party-jwt", "first-party-jwt":
		return r.readText("MESHPILOT_TOKEN_PATH", tokenFile)
	default: // such as Istio's "none": certificates are already in place
		return ""
	}
}

// readText returns the value of a variable without surrounding spaces, or fallback if that is
// empty.
func (r *reader) readText(name, fallback string) string {
	if value, ok := r.lookupText(name); ok {
		return value
	}
	return fallback
}

// readPrefixed returns the variables whose names begin with a prefix, keyed without it. It returns
// nil if there is none. A variable that is named by the prefix alone is left out.
func (r *reader) readPrefixed(prefix string) map[string]string {
	var found map[string]string
	for name, value := range r.vars {
		if key, ok := strings.CutPrefix(name, prefix); ok && key != "" {
			if found == nil {
				found = map[string]string{}
			}
			found[key] = value
		}
	}
	return found
}

// readRatio returns a number from 0 to below 1, or fallback if the variable is not set. Other
// values are added to r's errors; the result is then not to be used.
func (r *reader) readRatio(name string, fallback float64) float64 {
	value := r.readFloat(name, fallback)
	if math.IsNaN(value) || value < 0 || value >= 1 {
		r.addError(name, "%v is not a ratio: want a number from 0 to below 1", value)
	}
	return value
}
