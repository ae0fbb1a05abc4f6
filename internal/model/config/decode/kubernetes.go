package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// decodeKubernetes decodes an object of a Kubernetes kind and sets d.Config. It merges a Secret's
// stringData into data and sets the name label of a Namespace. Unknown fields are Warnings and
// duplicate ones Errors; the caller decides whether Errors prevent the use of d.Config. An object
// that cannot be decoded has an Error, and only d.Partial.
func (d *Decoded) decodeKubernetes(info api.KindInfo, body []byte) {
	object := info.NewObject()
	strict, err := kjson.UnmarshalStrict(body, object)
	d.addStrictFaults(strict, func(string) config.Severity { return config.Warning })
	if err != nil {
		d.addHardFault(err)
		object.SetNamespace(d.Key.Namespace)
		d.setPartial(object, &partialSpec{spec: object}, nil)
		return
	}
	object.SetNamespace(d.Key.Namespace)
	switch object := object.(type) {
	case *corev1.Secret:
		mergeStringData(object)
	case *corev1.Namespace:
		setNameLabel(object)
	}
	d.setConfig(object, object, nil)
}

// setNameLabel sets the label that the API server sets on every Namespace, and overrides any value
// that its author wrote.
func setNameLabel(namespace *corev1.Namespace) {
	namespace.Labels = withLabel(namespace.Labels, corev1.LabelMetadataName, namespace.Name)
}

// withLabel returns a copy of labels in which key is set to value.
func withLabel(labels map[string]string, key, value string) map[string]string {
	set := map[string]string{}
	maps.Copy(set, labels)
	set[key] = value
	return set
}

// mergeStringData moves Secret.stringData into a copy of its data, as the API server does when a
// Secret is written. A key in both has the value of stringData. The old map is not modified.
func mergeStringData(secret *corev1.Secret) {
	if len(secret.StringData) == 0 {
		return
	}
	data := maps.Clone(secret.Data)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		data[key] = []byte(value)
	}
	secret.Data, secret.StringData = data, nil
}

// addStrictFaults adds a Problem for each fault, which is about an unknown or duplicate field, as
// sigs.k8s.io/json formats it: `unknown field "spec.foo"`. Duplicate fields are Errors; severity
// returns the severity of an unknown one.
func (d *Decoded) addStrictFaults(faults []error, severity func(field string) config.Severity) {
	for _, err := range faults {
		reason, quoted, _ := strings.Cut(err.Error(), " \"")
		field := strings.TrimSuffix(quoted, "\"")
		if reason == "duplicate field" {
			d.addError(field, reason) // it is unknown which of the two values is intended
			continue
		}
		d.addProblem(severity(field), field, reason)
	}
}

// addHardFault adds err, the reason why an object cannot be decoded into its type, as an Error. If
// a value has the wrong type, the Error names its field, or "metadata" if err does not contain the
// path. Otherwise it has no field.
func (d *Decoded) addHardFault(err error) {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		field := mismatch.Field
		if mismatch.Struct == "" || field == "" {
			field = "metadata"
		}
		d.addError(field, fmt.Sprintf("must be of type %s, found %s", mismatch.Type, mismatch.Value))
		return
	}
	d.addError("", strings.TrimPrefix(err.Error(), "json: "))
}
