package gatewayapi

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// clientValidation is how a listener validates client certificates.
type clientValidation struct {
	// authority is the SDS name of the CA certificates, or "" if clients need no certificate.
	authority string
	// optional also accepts clients without a valid certificate.
	optional bool
	verdict  verdict
}

// secretRef returns the key of a Secret that an object in namespace own refers to; no namespace
// means own. ok is false if the reference is to another kind or group.
func secretRef(own string, ref gatewayv1.SecretObjectReference) (k config.Key, ok bool) {
	k = config.Key{Kind: api.Secret, Namespace: own, Name: string(ref.Name)}
	if ref.Namespace != nil && *ref.Namespace != "" {
		k.Namespace = string(*ref.Namespace)
	}
	return k, (ref.Group == nil || *ref.Group == "") && (ref.Kind == nil || *ref.Kind == "Secret")
}

// setCertificates sets l.certificates to the SDS names of the Secrets of a listener that terminates
// TLS, and adds the Secrets to g.references. A reference that is missing, no Secret, not granted or
// invalid fails l.resolved. A granted Secret is used even if it is invalid or missing, because it
// may become valid.
func (c *Converter) setCertificates(g *gateway, l *listener) {
	const invalid = string(gatewayv1.ListenerReasonInvalidCertificateRef)
	if l.spec.TLS == nil || len(l.spec.TLS.CertificateRefs) == 0 {
		l.resolved.worse(verdict{invalid, "tls.certificateRefs: is missing"})
		return
	}
	for i, ref := range l.spec.TLS.CertificateRefs {
		at := fmt.Sprintf("tls.certificateRefs[%d]", i)
		k, isSecret := secretRef(l.parent.Namespace, ref)
		if !isSecret {
			l.resolved.worse(verdict{invalid, at + ": only Secrets are supported"})
			continue
		}
		g.references = append(g.references, k)
		if !c.isGranted(l.parent, k) {
			l.resolved.worse(verdict{
				string(gatewayv1.ListenerReasonRefNotPermitted),
				fmt.Sprintf("%s: no ReferenceGrant in %s allows the reference to Secret %s", at, k.Namespace, k.Name),
			})
			continue
		}
		if fault := c.certificateFault(k); fault != "" {
			l.resolved.worse(verdict{invalid, fmt.Sprintf("%s: Secret %s/%s %s", at, k.Namespace, k.Name, fault)})
		}
		l.certificates = append(l.certificates, sdsName(k))
	}
}

// sdsName returns the name by which proxies request the certificate in a Secret.
func sdsName(k config.Key) string {
	return mesh.SecretName{Store: mesh.GatewaySecret, Namespace: k.Namespace, Object: k.Name}.String()
}

// certificateFault returns why a Secret has no usable certificate with key, or "" if it has one. An
// expired certificate is a fault, if the Converter knows the time. The expiry of a valid one is
// recorded in c.expiries.
func (c *Converter) certificateFault(k config.Key) string {
	s := specOf[*corev1.Secret](c.objects.all[k])
	if s == nil {
		return "does not exist"
	}
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return "has no valid certificate and key: " + err.Error()
	}
	return c.expiries.fault(k, pair.Leaf.NotAfter)
}

// clientValidation returns how the listeners of a port that terminate TLS validate client
// certificates, zero if they do not. A setting for the port overrides the default, also if it has
// no validation. The verdict is the first failure if there are authorities but none is usable, else
// it passes. The authorities are added to g.references, and a bundle of several permitted ones to
// g.bundles.
func (c *Converter) clientValidation(g *gateway, port int32) clientValidation {
	if g.spec.TLS == nil || g.spec.TLS.Frontend == nil {
		return clientValidation{}
	}
	v, field := g.spec.TLS.Frontend.Default.Validation, "spec.tls.frontend.default"
	for i, p := range g.spec.TLS.Frontend.PerPort {
		if p.Port == port {
			v, field = p.TLS.Validation, fmt.Sprintf("spec.tls.frontend.perPort[%d].tls", i)
		}
	}
	if v == nil {
		return clientValidation{}
	}
	out, usable := clientValidation{optional: v.Mode == gatewayv1.AllowInsecureFallback}, false
	var authorities []config.Key
	for i, ref := range v.CACertificateRefs {
		k, permitted, fault := c.authority(g, ref)
		if !fault.ok() {
			fault.message = fmt.Sprintf("%s.validation.caCertificateRefs[%d]: %s", field, i, fault.message)
			out.verdict.worse(fault)
		}
		if permitted {
			authorities = append(authorities, k)
		}
		usable = usable || fault.ok()
	}
	switch len(authorities) {
	case 0:
	case 1:
		out.authority = authorityName(authorities[0])
	default:
		key := bundleKey(g.Namespace, fmt.Sprintf("%s~%d", g.Name, port))
		out.authority = authorityName(key)
		if bundle := c.newBundle(key, g.object, authorities); bundle != nil {
			g.bundles[key] = bundle
		}
	}
	if usable {
		out.verdict = verdict{}
	}
	return out
}

// authority resolves a reference of Gateway g to CA certificates: a ConfigMap or Secret with the
// key ca.crt. permitted is false, and the verdict fails, for another kind or without a
// ReferenceGrant. An object without usable CA certificates is permitted, because it may become
// valid, but fails the verdict. An object of a supported kind is added to g.references.
func (c *Converter) authority(g *gateway, ref gatewayv1.ObjectReference) (k config.Key, permitted bool, v verdict) {
	k = config.Key{Kind: api.ConfigMap, Namespace: g.Namespace, Name: string(ref.Name)}
	if ref.Namespace != nil && *ref.Namespace != "" {
		k.Namespace = string(*ref.Namespace)
	}
	switch {
	case ref.Group == "" && ref.Kind == "Secret":
		k.Kind = api.Secret
	case ref.Group != "" || ref.Kind != "ConfigMap":
		return k, false, verdict{
			string(gatewayv1.ListenerReasonInvalidCACertificateKind),
			fmt.Sprintf("kind %q is neither ConfigMap nor Secret", ref.Kind),
		}
	}
	g.references = append(g.references, k)
	if !c.isGranted(gatewayKey(g.name), k) {
		return k, false, verdict{
			string(gatewayv1.ListenerReasonRefNotPermitted),
			fmt.Sprintf("no ReferenceGrant in %s allows the reference to %s %s", k.Namespace, k.Kind, k.Name),
		}
	}
	if fault := c.authorityFault(k); fault != "" {
		return k, true, verdict{
			string(gatewayv1.ListenerReasonInvalidCACertificateRef),
			fmt.Sprintf("%s %s/%s %s", k.Kind, k.Namespace, k.Name, fault),
		}
	}
	return k, true, verdict{}
}

// authorityName returns the SDS name of the CA certificates in a ConfigMap or Secret.
func authorityName(k config.Key) string {
	n := mesh.SecretName{Store: mesh.ConfigMapSecret, Namespace: k.Namespace, Object: k.Name, Trust: true}
	if k.Kind == api.Secret {
		n.Store = mesh.GatewaySecret
	}
	return n.String()
}

// authorityKey is the key of CA certificates in a ConfigMap or Secret.
const authorityKey = "ca.crt"

// authorityFault returns why a Secret or ConfigMap has no usable CA certificates, or "" if it has.
// Only its first certificate is checked.
func (c *Converter) authorityFault(k config.Key) string {
	var data []byte
	switch o := c.objects.all[k]; {
	case o == nil:
		return "does not exist"
	case k.Kind == api.Secret:
		data = config.Spec[*corev1.Secret](o).Data[authorityKey]
	default:
		data = []byte(config.Spec[*corev1.ConfigMap](o).Data[authorityKey])
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return "has no certificate in PEM under " + authorityKey
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return "has no valid certificate under " + authorityKey + ": " + err.Error()
	}
	return ""
}

// setClientCertificate sets g.certificate to the SDS name of the client certificate with which a
// Gateway calls backends over TLS, and adds its Secret to g.references. A reference that is no
// Secret, not granted or invalid fails g.backend instead. Without a reference it does nothing.
func (c *Converter) setClientCertificate(g *gateway) {
	const invalid = string(gatewayv1.GatewayReasonInvalidClientCertificateRef)
	if g.spec.TLS == nil || g.spec.TLS.Backend == nil || g.spec.TLS.Backend.ClientCertificateRef == nil {
		return
	}
	k, isSecret := secretRef(g.Namespace, *g.spec.TLS.Backend.ClientCertificateRef)
	if !isSecret {
		g.backend = verdict{invalid, "spec.tls.backend.clientCertificateRef: only Secrets are supported"}
		return
	}
	g.references = append(g.references, k)
	switch fault := c.certificateFault(k); {
	case !c.isGranted(gatewayKey(g.name), k):
		g.backend = verdict{
			string(gatewayv1.GatewayReasonRefNotPermitted),
			fmt.Sprintf(
				"spec.tls.backend.clientCertificateRef: no ReferenceGrant in %s allows the reference to Secret %s",
				k.Namespace, k.Name),
		}
	case fault != "":
		g.backend = verdict{
			invalid,
			fmt.Sprintf("spec.tls.backend.clientCertificateRef: Secret %s/%s %s", k.Namespace, k.Name, fault),
		}
	default:
		g.certificate = sdsName(k)
	}
}
