package secret

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Inspector finds faults of credentials. It caches the verdicts on unchanged objects, and is not
// safe for concurrent use. The zero Inspector is ready.
type Inspector struct {
	verdicts map[*config.Config]verdict
}

// verdict is the result for one object: its faults, and the validity of its certificates.
type verdict struct {
	faults []fault
	times  []validity
}

// validity is the period in which a certificate is valid.
type validity struct {
	key, subject     string
	notBefore, until time.Time
}

// Problems returns the faults, at the time now, of the Secrets and ConfigMaps of a snapshot that
// contain credentials or are referenced as such. It adds a Warning for each credential name in
// Gateways and DestinationRules without an object. Certificates that have expired or are not valid
// yet are reported as Warnings and still served, as in Istio: peers refuse them. It replaces the
// verdicts cached in i by the verdicts on these objects.
func (i *Inspector) Problems(s *snapshot.Snapshot, now time.Time) []config.Problem {
	refs := referencesOf(s)
	known := make(map[*config.Config]verdict)
	var list []config.Problem
	note := func(c *config.Config, severity config.Severity, key, reason string) {
		list = append(
			list,
			config.Problem{
				Code:     code.InvalidCredential,
				Key:      c.Key,
				Field:    "data[" + key + "]",
				Reason:   reason,
				Severity: severity,
				Origin:   c.Origin,
			},
		)
	}
	for _, c := range slices.Concat(s.Configs(api.Secret), s.Configs(api.RemoteSecret), s.Configs(api.ConfigMap)) {
		if !isCredential(c) && !refs.includes(c.Key) {
			continue
		}
		v, ok := i.verdicts[c]
		if !ok {
			v = inspect(c)
		}
		known[c] = v
		for _, f := range v.faults {
			note(c, f.severity, f.key, f.reason)
		}
		for _, t := range v.times {
			if reason := t.at(now); reason != "" {
				note(c, config.Warning, t.key, reason)
			}
		}
	}
	i.verdicts = known
	return append(list, refs.missing(s)...)
}

// isCredential reports whether an object is meant to be a credential, even if no object references
// it: a Secret of type kubernetes.io/tls, or with both keys of a pair.
func isCredential(c *config.Config) bool {
	o, ok := c.Spec.(*corev1.Secret)
	if !ok {
		return false
	}
	whole := func(r row) bool {
		return !slices.ContainsFunc(r.needed, func(key string) bool { _, there := o.Data[key]; return !there })
	}
	return o.Type == corev1.SecretTypeTLS || slices.ContainsFunc(pairRows(), whole)
}

// inspect parses an object as a pair if it has a data key of one. It parses it as trusted
// certificates if it has a data key of these, or its name says so (mesh.CredentialName). A
// ConfigMap is always parsed as trusted certificates, never as a pair. Any other object is parsed
// as a pair. Faults of the parts are added to the verdict.
func inspect(c *config.Config) verdict {
	data := dataOf(c)
	begun := func(r row) bool { return r.isPresent(data) }
	n, _ := mesh.CredentialName(localKey(c.Key).Name)
	trusts := n.Trust || c.Kind == api.ConfigMap || slices.ContainsFunc(trustRows(), begun)
	pairs := c.Kind != api.ConfigMap && slices.ContainsFunc(pairRows(), begun)
	var v verdict
	if pairs || !trusts {
		p, faults := pairOf(c)
		v.addCertificates(p.chainKey, p.certificates, faults)
	}
	if trusts {
		t, faults := trustOf(c)
		v.addCertificates(t.anchorsKey, t.certificates, faults)
	}
	return v
}

// addCertificates adds faults, and the validity of the certificates under the data key key. Nil
// certificates are skipped.
func (v *verdict) addCertificates(key string, certificates []*x509.Certificate, faults []fault) {
	v.faults = append(v.faults, faults...)
	for _, c := range certificates {
		if c != nil {
			v.times = append(v.times, validity{key, c.Subject.String(), c.NotBefore, c.NotAfter})
		}
	}
}

// at returns why the certificate is not valid at the time now, or "" if it is.
func (v validity) at(now time.Time) string {
	switch {
	case now.After(v.until):
		return fmt.Sprintf("the certificate of %q expired on %s", v.subject, v.until.UTC().Format(time.DateTime))
	case now.Before(v.notBefore):
		return fmt.Sprintf("the certificate of %q is not valid before %s", v.subject,
			v.notBefore.UTC().Format(time.DateTime))
	default:
		return ""
	}
}
