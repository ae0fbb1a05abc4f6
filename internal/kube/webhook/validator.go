package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// maxObjectValues bounds an object of Istio's.
const maxObjectValues = 200_000

// alwaysReject is the annotation of objects that are only sent to see whether the webhook works.
const alwaysReject = "internal.istio.io/webhook-always-reject"

// Why an object was refused, as metrics have it.
const (
	reasonDecode      = "yaml_decode_error"
	reasonUnknownType = "unknown_type"
	reasonInvalid     = "invalid_resource"
)

// Validator answers whether objects are valid.
type Validator struct {
	// Warn gives what of a valid object will have no effect; nil: nothing.
	Warn func(*config.Config) []config.Problem
	Log  *slog.Logger
}

// verdict is what was found about one object.
type verdict struct {
	faults   []config.Problem
	warnings []string
	reason   string // for metrics
}

// validation serves a Validator.
func (s *Server) validation(v *Validator) http.Handler {
	m := s.options.Metrics
	return s.review(maxObjectValues, func(_ context.Context, _ string, r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		if r.Operation != admissionv1.Create && r.Operation != admissionv1.Update || r.SubResource != "" {
			return &admissionv1.AdmissionResponse{Allowed: true}, nil
		}
		dry := r.DryRun != nil && *r.DryRun
		found := v.judge(r)
		resource := []string{r.Resource.Group, r.Resource.Version, r.Resource.Resource}
		if len(found.faults) == 0 {
			if !dry {
				m.Valid.WithLabelValues(resource...).Inc()
			}
			return &admissionv1.AdmissionResponse{Allowed: true, Warnings: found.warnings}, nil
		}
		if !dry {
			m.Invalid.WithLabelValues(append(resource, found.reason)...).Inc()
			v.Log.Info("an object was refused", "kind", r.Kind.Kind, "namespace", r.Namespace, "name", r.Name, "user", r.UserInfo.Username,
				"err", text(found.faults))
		}
		out := refusal(http.StatusUnprocessableEntity, "configuration is invalid: "+text(found.faults), details(r, found.faults))
		out.Warnings = found.warnings
		return out, nil
	}, func(code int) { m.HTTPErrors.WithLabelValues(strconv.Itoa(code)).Inc() })
}

// judge finds what is wrong with an object that is created or changed. What was wrong before is no reason to refuse a change of
// anything but its spec, for then nobody could so much as delete it.
func (v *Validator) judge(r *admissionv1.AdmissionRequest) verdict {
	body, head, err := named(r)
	if err != nil {
		return verdict{reason: reasonDecode, faults: []config.Problem{{Reason: err.Error()}}}
	}
	if _, ok := head.Metadata.Annotations[alwaysReject]; ok {
		return verdict{reason: reasonInvalid, faults: []config.Problem{{
			Field: "metadata.annotations[" + alwaysReject + "]", Reason: "asks for the object to be refused",
		}}}
	}
	if head.Metadata.DeletionTimestamp != nil {
		return verdict{}
	}
	d := decode.Object(body)
	if d.Foreign {
		return verdict{warnings: retiredWarnings(d)}
	}
	out := verdict{reason: reasonInvalid}
	if d.Unreadable() {
		out.reason = reasonUnknownType
	}
	for _, p := range d.Problems {
		if p.Severity == config.Error {
			out.faults = append(out.faults, p)
		} else {
			out.warnings = append(out.warnings, line(p))
		}
	}
	if d.Config != nil && v.Warn != nil {
		for _, p := range v.Warn(d.Config) {
			out.warnings = append(out.warnings, line(p))
		}
	}
	if len(out.faults) > 0 && r.Operation == admissionv1.Update && sameSpec(r.OldObject.Raw, body) {
		for _, p := range out.faults {
			out.warnings = append(out.warnings, "was and stays invalid: "+line(p))
		}
		out.faults = nil
	}
	return out
}

// retiredWarnings returns what to warn of an object of a kind that Istio has retired. It is not
// refused: the control plane that reads it may run beside this one while a mesh moves. Of another
// program's kind it returns nothing.
func retiredWarnings(d decode.Decoded) []string {
	var list []string
	for _, p := range d.Problems {
		if p.Severity == config.Error {
			list = append(list, line(p))
		}
	}
	return list
}

type objectHead struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
}

// named gives the object with a name and a namespace, which one that is to be given a name has not got yet.
func named(r *admissionv1.AdmissionRequest) ([]byte, objectHead, error) {
	head := objectHead{}
	if err := json.Unmarshal(r.Object.Raw, &head); err != nil {
		return nil, head, fmt.Errorf("cannot decode configuration: %w", err)
	}
	if head.Metadata.Name != "" && (head.Metadata.Namespace != "" || r.Namespace == "") {
		return r.Object.Raw, head, nil
	}
	var object map[string]json.RawMessage
	metadata := map[string]json.RawMessage{}
	if err := json.Unmarshal(r.Object.Raw, &object); err != nil {
		return nil, head, fmt.Errorf("cannot decode configuration: %w", err)
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil && object["metadata"] != nil {
		return nil, head, fmt.Errorf("cannot decode configuration: %w", err)
	}
	set := func(key, value string) {
		metadata[key], _ = json.Marshal(value) // a string
	}
	if head.Metadata.Name == "" {
		name := r.Name
		if name == "" && head.Metadata.GenerateName != "" {
			name = head.Metadata.GenerateName + "00000" // as long as what will be there
		}
		set("name", name)
	}
	if r.Namespace != "" {
		set("namespace", r.Namespace)
	}
	var err error
	if object["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, head, err
	}
	body, err := json.Marshal(object)
	return body, head, err
}

// sameSpec says whether two versions of an object have the same spec. The API server writes both in one form.
func sameSpec(old, updated []byte) bool {
	spec := func(raw []byte) ([]byte, bool) {
		var o struct {
			Spec json.RawMessage `json:"spec"`
		}
		var out bytes.Buffer
		if json.Unmarshal(raw, &o) != nil || len(o.Spec) == 0 || json.Compact(&out, o.Spec) != nil {
			return nil, false
		}
		return out.Bytes(), true
	}
	a, okA := spec(old)
	b, okB := spec(updated)
	return okA && okB && bytes.Equal(a, b)
}

// text says everything that is wrong in one line.
func text(faults []config.Problem) string {
	lines := make([]string, len(faults))
	for i, p := range faults {
		lines[i] = line(p)
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d errors: %s", len(lines), strings.Join(lines, "; "))
}

func line(p config.Problem) string {
	if p.Field == "" {
		return p.Reason
	}
	return p.Field + ": " + p.Reason
}

// details are the faults for programs, and the object that they are about. kubectl prints them in place of the message, and names
// the object only if they do: of a file with many objects, who applies it would not know which is meant.
func details(r *admissionv1.AdmissionRequest, faults []config.Problem) *metav1.StatusDetails {
	out := &metav1.StatusDetails{Name: r.Name, Group: r.Kind.Group, Kind: r.Kind.Kind}
	for _, p := range faults {
		out.Causes = append(out.Causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: p.Field, Message: p.Reason})
	}
	return out
}
