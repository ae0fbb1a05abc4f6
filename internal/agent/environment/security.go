package environment

import (
	"math"
	"strings"
	"time"
)

// SystemRoots is the value of a variable for roots that stands for the authorities of the operating system.
const SystemRoots = "SYSTEM"

// Files that are mounted into pods, relative to the working directory as Istio's images have it (the root directory).
const (
	tokenFile     = "./var/run/secrets/tokens/istio-token"
	meshRootsFile = "./var/run/secrets/istio/root-cert.pem"
)

// Security is where the workload's identity comes from, and how the control plane is known.
type Security struct {
	// CAAddress is the certificate authority's host:port (CA_ADDR); "": the control plane itself.
	CAAddress string
	// CARoots and XDSRoots are files of authorities that the servers are checked against (CA_ROOT_CA, XDS_ROOT_CA);
	// SystemRoots: those of the system, "": by the rules of the other variables.
	CARoots, XDSRoots string
	// CertProvider is who signed the control plane's own certificate (PILOT_CERT_PROVIDER, istiod if not set).
	CertProvider string
	// MeshRoots is the file with the mesh's roots that is mounted into pods.
	MeshRoots string
	// ServerName replaces the host of the address as the name that the control plane's certificate must have (ISTIOD_SAN).
	ServerName string
	// Provisioned is a directory with key.pem, cert-chain.pem and root-cert.pem that somebody else put there to begin with,
	// on a virtual machine for instance (PROV_CERT); "" for none.
	Provisioned string
	// FileMounted says that workload certificates are files, and nobody is asked for them (FILE_MOUNTED_CERTS).
	FileMounted bool
	// ClientFiles are those files where the node's metadata names them.
	ClientFiles CertificateFiles
	// Token is the file of the token that the workload proves itself with, "" for none (JWT_POLICY).
	Token string
	// TokenForCSR says whether the token goes with requests for certificates (USE_TOKEN_FOR_CSR, true if not set).
	TokenForCSR bool
	// CAHeaders and XDSHeaders are more metadata of calls (CA_HEADER_NAME, XDS_HEADER_NAME).
	CAHeaders, XDSHeaders map[string]string
	// CertSigner names the signer that a Kubernetes certificate signing request is for (ISTIO_META_CERT_SIGNER).
	CertSigner string

	// TrustDomain is the workload's (TRUST_DOMAIN, cluster.local if not set).
	TrustDomain string
	// Lifetime is what is asked for (SECRET_TTL, 24h if not set).
	Lifetime time.Duration
	// GraceRatio is the part of the lifetime that is left when a certificate is renewed, and GraceJitter how much more or
	// less (SECRET_GRACE_PERIOD_RATIO, 0.5; SECRET_GRACE_PERIOD_RATIO_JITTER, 0.01).
	GraceRatio, GraceJitter float64
	// RSABits is the size of RSA keys (WORKLOAD_RSA_KEY_SIZE); 0: keys of an elliptic curve.
	RSABits int
	// Curve is P256 or P384 (ECC_CURVE).
	Curve string
	// PKCS8 writes private keys in that form (PKCS8_KEY).
	PKCS8 bool
	// Output is a directory where certificates are written for others to use (OUTPUT_CERTS); "" for nowhere.
	Output string
	// OutputReaders is who may read the private key there: ReadersOwner, ReadersGroup or ReadersAll (MESHPILOT_OUTPUT_KEY_READERS); "":
	// the owner, and with the template for gRPC the group too.
	OutputReaders string
	// FileSettle is how long a file must be left alone before it is read again (FILE_DEBOUNCE_DURATION, 100 ms).
	FileSettle time.Duration
	// Socket is the name of the SDS socket (WORKLOAD_IDENTITY_SOCKET_FILE, "socket").
	Socket string
}

// CertificateFiles are the files of a certificate with its key, and of roots to trust.
type CertificateFiles struct{ Chain, Key, Roots string }

// DefaultSocket is the SDS socket's name where nobody brings another.
const DefaultSocket = "socket"

// The values of MESHPILOT_OUTPUT_KEY_READERS.
const (
	ReadersOwner = "owner"
	ReadersGroup = "group"
	ReadersAll   = "all"
)

func (r *reader) security() Security {
	s := Security{
		CAAddress: r.vars["CA_ADDR"], CARoots: r.vars["CA_ROOT_CA"], XDSRoots: r.vars["XDS_ROOT_CA"],
		CertProvider: r.otherwise("PILOT_CERT_PROVIDER", "istiod"), MeshRoots: meshRootsFile,
		ServerName: r.vars["ISTIOD_SAN"], Provisioned: r.vars["PROV_CERT"],
		FileMounted: r.boolean("FILE_MOUNTED_CERTS", false),
		ClientFiles: CertificateFiles{
			Chain: r.vars["ISTIO_META_TLS_CLIENT_CERT_CHAIN"], Key: r.vars["ISTIO_META_TLS_CLIENT_KEY"], Roots: r.vars["ISTIO_META_TLS_CLIENT_ROOT_CERT"],
		},
		Token: r.tokenPath(), TokenForCSR: r.boolean("USE_TOKEN_FOR_CSR", true),
		CAHeaders: r.prefixed("CA_HEADER_"), XDSHeaders: r.prefixed("XDS_HEADER_"), CertSigner: r.vars["ISTIO_META_CERT_SIGNER"],

		TrustDomain: r.otherwise("TRUST_DOMAIN", "cluster.local"),
		Lifetime:    r.duration("SECRET_TTL", 24*time.Hour),
		GraceRatio:  r.ratio("SECRET_GRACE_PERIOD_RATIO", 0.5), GraceJitter: r.ratio("SECRET_GRACE_PERIOD_RATIO_JITTER", 0.01),
		PKCS8: r.boolean("PKCS8_KEY", false), Output: r.vars["OUTPUT_CERTS"], OutputReaders: r.vars["MESHPILOT_OUTPUT_KEY_READERS"],
		FileSettle: r.duration("FILE_DEBOUNCE_DURATION", 100*time.Millisecond),
		Socket:     r.otherwise("WORKLOAD_IDENTITY_SOCKET_FILE", DefaultSocket),
	}
	r.keys(&s)
	r.provider()
	if strings.Contains(s.Socket, "/") {
		r.fail("WORKLOAD_IDENTITY_SOCKET_FILE", "%q: want the name of a file, not a path", s.Socket)
	}
	if s.Provisioned != "" && s.FileMounted {
		r.fail("PROV_CERT", "is for certificates to begin with, FILE_MOUNTED_CERTS for those of the workload: set one of them")
	}
	switch s.OutputReaders {
	case "", ReadersOwner, ReadersGroup, ReadersAll:
	default:
		r.fail("MESHPILOT_OUTPUT_KEY_READERS", "%q: want owner, group or all", s.OutputReaders)
	}
	if s.Lifetime < time.Second {
		r.fail("SECRET_TTL", "%v is less than a second", s.Lifetime)
	}
	return s
}

// keys reads which private keys the workload gets. Istio's agent makes RSA keys unless told otherwise; this one the smaller
// and faster keys, unless an RSA size is asked for.
func (r *reader) keys(s *Security) {
	const algorithm, size, curve = "ECC_SIGNATURE_ALGORITHM", "WORKLOAD_RSA_KEY_SIZE", "ECC_CURVE"
	s.Curve = r.otherwise(curve, "P256")
	if s.Curve != "P256" && s.Curve != "P384" {
		r.fail(curve, "%q is neither P256 nor P384", s.Curve)
	}
	bits := r.number(size, 0)
	if bits != 0 && (bits < 2048 || bits > 8192) {
		r.fail(size, "%d bits: want 2048 to 8192", bits)
	}
	switch name, _ := r.text(algorithm); name {
	case "":
		s.RSABits = int(bits)
	case "ECDSA":
	default:
		r.fail(algorithm, "%q is not known: want ECDSA", name)
	}
}

// provider refuses authorities of other kinds, which a workload would wait for in vain.
func (r *reader) provider() {
	switch name, _ := r.text("CA_PROVIDER"); name {
	case "", "Citadel":
	default:
		r.fail("CA_PROVIDER", "%q is not supported: want Citadel, the authority of the control plane", name)
	}
	switch kind, _ := r.text("CREDENTIAL_FETCHER_TYPE"); kind {
	case "", "JWT":
	default:
		r.fail("CREDENTIAL_FETCHER_TYPE", "%q is not supported: want JWT", kind)
	}
}

// tokenPath is the file of the workload's token. Istio's name for the older kind of token means the same file by now.
func (r *reader) tokenPath() string {
	switch policy, _ := r.text("JWT_POLICY"); policy {
	case "", "third-party-jwt", "first-party-jwt":
		return r.otherwise("MESHPILOT_TOKEN_PATH", tokenFile)
	default: // Istio's "none" and whatever else: certificates that are there already
		return ""
	}
}

// otherwise gives a text, or another if it is not set.
func (r *reader) otherwise(name, otherwise string) string {
	if value, ok := r.text(name); ok {
		return value
	}
	return otherwise
}

// prefixed gives the variables whose names begin with a prefix, without it.
func (r *reader) prefixed(prefix string) map[string]string {
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

func (r *reader) ratio(name string, otherwise float64) float64 {
	value := r.float(name, otherwise)
	if math.IsNaN(value) || value < 0 || value >= 1 {
		r.fail(name, "%v is not a part of one", value)
	}
	return value
}
