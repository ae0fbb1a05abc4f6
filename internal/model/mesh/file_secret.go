package mesh

import "strings"

// Prefixes of SDS names that stand for files on the proxy's own disk, as Istio's agent spells them.
const (
	fileCertificatePrefix = "file-cert:"
	fileRootsPrefix       = "file-root:"
)

// SystemRoots is the path in an SDS name ("file-root:system") that stands for the certificate authorities of the proxy's operating
// system. The agent knows in which file they are.
const SystemRoots = "system"

// DebianRoots is the file with those authorities on Debian, Ubuntu and the images made of them. A proxy without an agent is assumed
// to have it.
const DebianRoots = "/etc/ssl/certs/ca-certificates.crt"

// FileCertificate gives the SDS name of a certificate and its key in two files of the proxy: "file-cert:/tls/cert.pem~/tls/key.pem".
func FileCertificate(chain, key string) string { return fileCertificatePrefix + chain + "~" + key }

// FileRoots gives the SDS name of certificates to trust in a file of the proxy: "file-root:/tls/ca.pem".
func FileRoots(path string) string { return fileRootsPrefix + path }

// ParseFileCertificate reads what FileCertificate wrote.
func ParseFileCertificate(name string) (chain, key string, ok bool) {
	paths, ok := strings.CutPrefix(name, fileCertificatePrefix)
	if !ok {
		return "", "", false
	}
	chain, key, ok = strings.Cut(paths, "~")
	return chain, key, ok && chain != "" && key != ""
}

// ParseFileRoots reads what FileRoots wrote.
func ParseFileRoots(name string) (path string, ok bool) {
	path, ok = strings.CutPrefix(name, fileRootsPrefix)
	return path, ok && path != ""
}
