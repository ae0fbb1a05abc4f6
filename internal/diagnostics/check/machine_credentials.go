package check

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// meshValid fails if mesh.yaml is missing or invalid. Otherwise it stores the address of the
// control plane, by default that of a new ProxyConfig, in m.discovery.
func (m *Machine) meshValid(context.Context) outcome {
	text, err := os.ReadFile(m.path(meshFile))
	if err != nil {
		return fail("%v", err)
	}
	var settings struct {
		DefaultConfig struct {
			DiscoveryAddress string `json:"discoveryAddress"`
		} `json:"defaultConfig"`
	}
	if err := yaml.Unmarshal(text, &settings); err != nil {
		return fail("%s: %v", m.path(meshFile), err)
	}
	if m.discovery = settings.DefaultConfig.DiscoveryAddress; m.discovery == "" {
		m.discovery = mesh.DefaultProxyConfig().GetDiscoveryAddress()
	}
	return pass("%s", m.discovery)
}

// rootsValid fails if root-cert.pem cannot be parsed or a root in it is not valid now, and warns if
// one expires within rootWarning. If the file can be parsed, it stores all roots, even expired
// ones, in m.roots.
func (m *Machine) rootsValid(context.Context) outcome {
	list, err := m.readCertificates(rootsFile)
	if err != nil {
		return fail("%v", err)
	}
	m.roots = x509.NewCertPool()
	for _, c := range list {
		m.roots.AddCert(c)
	}
	var wrong, soon findings
	(&Target{Now: m.Now}).checkTimes(m.path(rootsFile), list, rootWarning, &wrong, &soon)
	return conclude(wrong, soon, "%d", len(list))
}

// readCertificates returns the certificates of a file of the machine. It returns an error if the
// file is missing, or if it has no certificate or a malformed one (parseCertificates).
func (m *Machine) readCertificates(name string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(m.path(name))
	if err != nil {
		return nil, err
	}
	list, err := parseCertificates(text)
	if err != nil {
		return nil, errors.New(m.path(name) + ": " + err.Error())
	}
	return list, nil
}

// credentialValid passes if the agent's certificate is within its validity period, or else if the
// token for the first connection has not expired. Signatures are not verified. It warns of a token
// without an expiry, which is refused unless a TokenReview accepts it. Otherwise it fails with both
// reasons.
func (m *Machine) credentialValid(context.Context) outcome {
	list, certificateErr := m.readCertificates(certificateFile)
	if certificateErr == nil {
		leaf := list[0]
		switch now := m.Now(); {
		case now.Before(leaf.NotBefore):
			certificateErr = errors.New("the certificate is not valid before " + leaf.NotBefore.Format(time.RFC3339))
		case now.Before(leaf.NotAfter):
			return pass("a certificate until %s", leaf.NotAfter.Format(time.RFC3339))
		default:
			certificateErr = errors.New("the certificate ended on " + leaf.NotAfter.Format(time.RFC3339))
		}
	}
	times, err := m.readToken()
	switch {
	case err != nil:
		return fail("%v; %v", certificateErr, err)
	case times.expires.IsZero():
		return warn("%v; the token has no expiry (exp): it is refused unless a TokenReview accepts it", certificateErr)
	case !m.Now().Before(times.expires):
		return fail("%v; the token expired on %s", certificateErr, times.expires.Format(time.RFC3339))
	}
	return pass("a token until %s", times.expires.Format(time.RFC3339))
}

// tokenPrivate fails if the group or other users of the machine have any permission on the token
// file. Without a token it is skipped.
func (m *Machine) tokenPrivate(context.Context) outcome {
	info, err := os.Stat(m.path(tokenFile))
	if err != nil {
		return skip("there is no token")
	}
	if info.Mode()&0o077 != 0 {
		return fail("%s has the mode %04o", m.path(tokenFile), info.Mode().Perm())
	}
	return pass("")
}

// machineSkew is how far apart the clocks of a machine and the control plane may be.
const machineSkew = time.Minute

// clockAgrees fails if the token was issued more than machineSkew in the machine's future. A token
// without that time passes. Without a readable token, the start of the certificate is compared;
// without both it is skipped.
func (m *Machine) clockAgrees(context.Context) outcome {
	var issued time.Time
	if times, err := m.readToken(); err == nil {
		issued = times.issued
	} else if list, err := m.readCertificates(certificateFile); err == nil {
		issued = list[0].NotBefore
	} else {
		return skip("there is neither a token nor a certificate")
	}
	if ahead := issued.Sub(m.Now()); ahead > machineSkew {
		return fail("the clock is at least %s behind the control plane's", ahead.Round(time.Second))
	}
	return pass("")
}

// tokenTimes are when a token was issued and when it expires.
type tokenTimes struct{ issued, expires time.Time }

// readToken returns the times of the machine's token. Its signature is not verified. It returns an
// error if the file cannot be read or is not a JSON Web Token. A time that is missing, or 0, is the
// zero time.
func (m *Machine) readToken() (tokenTimes, error) {
	text, err := os.ReadFile(m.path(tokenFile))
	if err != nil {
		return tokenTimes{}, err
	}
	malformed := errors.New(m.path(tokenFile) + " is not a JSON Web Token")
	parts := strings.Split(strings.TrimSpace(string(text)), ".")
	if len(parts) != 3 {
		return tokenTimes{}, malformed
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return tokenTimes{}, malformed
	}
	var claims struct {
		Issued  int64 `json:"iat"`
		Expires int64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return tokenTimes{}, malformed
	}
	return tokenTimes{unixTime(claims.Issued), unixTime(claims.Expires)}, nil
}

// unixTime returns the time of a claim in UTC, or the zero time for 0.
func unixTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
