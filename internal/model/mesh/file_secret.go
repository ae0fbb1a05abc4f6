package mesh

import "strings"

// Prefixes of SDS names for files on the proxy's disk, as Istio's agent spells them.
const (
	fileCertificatePrefix = "file-cert:"
	fileRootsPrefix       = "file-root:"
)

// SystemRoots is the path in an SDS name ("file-root:system") for the CA certificates of the
// proxy's operating system. The agent knows their file.
const SystemRoots = "system"

// DebianRoots is the file with these certificates on Debian, Ubuntu and derived images. A proxy
// without an agent is assumed to have it.
const DebianRoots = "/etc/ssl/certs/ca-certificates.crt"

// FileCertificate returns the SDS name of a certificate and its private key in two files of the
// proxy: "file-cert:/tls/cert.pem~/tls/key.pem".
func FileCertificate(chain, key string) string { return fileCertificatePrefix + chain + "~" + key }

// FileRoots returns the SDS name of CA certificates in a file of the proxy:
// "file-root:/tls/ca.pem".
func FileRoots(path string) string { return fileRootsPrefix + path }

// ParseFileCertificate parses the output of FileCertificate. ok is false for any other name, and if
// a path is empty.
func ParseFileCertificate(name string) (chain, key string, ok bool) {
	paths, ok := strings.CutPrefix(name, fileCertificatePrefix)
	if !ok {
		return "", "", false
	}
	chain, key, ok = strings.Cut(paths, "~")
	return chain, key, ok && chain != "" && key != ""
}

// ParseFileRoots parses the output of FileRoots. ok is false for any other name, and if the path is
// empty.
func ParseFileRoots(name string) (path string, ok bool) {
	path, ok = strings.CutPrefix(name, fileRootsPrefix)
	return path, ok && path != ""
}
