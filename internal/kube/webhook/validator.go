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

// maxObjectValues bounds the JSON values of an object.
const maxObjectValues = 200_000

// alwaysReject is the annotation of objects that are only created to test the webhook.
const alwaysReject = "internal.istio.io/webhook-always-reject"

// Reasons of denials, as label values of metrics.
const (
	reasonDecode      = "yaml_decode_error"
	reasonUnknownType = "unknown_type"
	reasonInvalid     = "invalid_resource"
)

// Validator validates Istio's objects.
type Validator struct {
	// Warn returns the parts of a valid object that will have no effect, and references to what does
	// not exist. If nil, there are no such warnings.
	Warn func(*config.Config) []config.Problem
	Log  *slog.Logger
}

// validationResult is the result for one object. The object is denied if there are errors.
type validationResult struct {
	errors   []config.Problem
	warnings []string
	reason   string // metric label
}

// validationHandler returns the handler of a Validator. Operations other than create and update,
// and subresources, are always allowed. Objects with errors are denied, with the errors in the
// response; results of dry runs are not counted or logged.
func (s *Server) validationHandler(v *Validator) http.Handler {
	m := s.options.Metrics
	return s.reviewHandler(
		maxObjectValues,
		func(_ context.Context, _ string, r *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
			if r.Operation != admissionv1.Create && r.Operation != admissionv1.Update || r.SubResource != "" {
				return &admissionv1.AdmissionResponse{Allowed: true}, nil
			}
			dry := r.DryRun != nil && *r.DryRun
			found := v.validateObject(r)
			resource := []string{r.Resource.Group, r.Resource.Version, r.Resource.Resource}
			if len(found.errors) == 0 {
				if !dry {
					m.Valid.WithLabelValues(resource...).Inc()
				}
				return &admissionv1.AdmissionResponse{Allowed: true, Warnings: found.warnings}, nil
			}
			if !dry {
				m.Invalid.WithLabelValues(append(resource, found.reason)...).Inc()
				v.Log.Info(
					"validation denied an object",
					"kind", r.Kind.Kind,
					"namespace", r.Namespace,
					"name", r.Name,
					"user", r.UserInfo.Username,
					"err", formatProblems(found.errors),
				)
			}
			out := denyResponse(
				http.StatusUnprocessableEntity,
				"configuration is invalid: "+formatProblems(found.errors),
				statusDetails(r, found.errors),
			)
			out.Warnings = found.warnings
			return out, nil
		},
		func(code int) { m.HTTPErrors.WithLabelValues(strconv.Itoa(code)).Inc() },
	)
}

// validateObject validates a created or updated object. An object with the annotation alwaysReject
// is refused. Objects that are being deleted are valid; objects of groups that are not read get
// only warnings. An update that leaves an invalid spec unchanged is allowed with warnings, because
// otherwise the object's metadata, such as finalizers, could not be changed.
func (v *Validator) validateObject(r *admissionv1.AdmissionRequest) validationResult {
	body, head, err := completeMetadata(r)
	if err != nil {
		return validationResult{reason: reasonDecode, errors: []config.Problem{{Reason: err.Error()}}}
	}
	if _, ok := head.Metadata.Annotations[alwaysReject]; ok {
		return validationResult{reason: reasonInvalid, errors: []config.Problem{{
			Field: "metadata.annotations[" + alwaysReject + "]", Reason: "requests that the object is denied",
		}}}
	}
	if head.Metadata.DeletionTimestamp != nil {
		return validationResult{}
	}
	d := decode.Object(body)
	if d.Foreign {
		return validationResult{warnings: retiredWarnings(d)}
	}
	out := validationResult{reason: reasonInvalid}
	if d.IsUnreadable() {
		out.reason = reasonUnknownType
	}
	for _, p := range d.Problems {
		if p.Severity == config.Error {
			out.errors = append(out.errors, p)
		} else {
			out.warnings = append(out.warnings, formatProblem(p))
		}
	}
	if d.Config != nil && v.Warn != nil {
		for _, p := range v.Warn(d.Config) {
			out.warnings = append(out.warnings, formatProblem(p))
		}
	}
	if len(out.errors) > 0 && r.Operation == admissionv1.Update && hasSameSpec(r.OldObject.Raw, body) {
		for _, p := range out.errors {
			out.warnings = append(out.warnings, "unchanged invalid configuration: "+formatProblem(p))
		}
		out.errors = nil
	}
	return out
}

// retiredWarnings returns the warnings for an object of a kind that Istio has retired. It is not
// refused: the control plane that reads it may run beside this one while a mesh moves. For another
// program's kind it returns nil.
func retiredWarnings(d decode.Decoded) []string {
	var list []string
	for _, p := range d.Problems {
		if p.Severity == config.Error {
			list = append(list, formatProblem(p))
		}
	}
	return list
}

type objectHead struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
}

// completeMetadata returns the object with a name and a namespace, from the request if they are
// missing, and its metadata as sent. An object with generateName gets a name of the final length.
// An object that is complete already is returned as it was sent. It returns an error if the
// metadata cannot be decoded.
func completeMetadata(r *admissionv1.AdmissionRequest) ([]byte, objectHead, error) {
	head := objectHead{}
	if err := json.Unmarshal(r.Object.Raw, &head); err != nil {
		return nil, head, fmt.Errorf("cannot decode configuration: %w", err)
	}
	if head.Metadata.Name != "" && (head.Metadata.Namespace != "" || r.Namespace == "") {
		return r.Object.Raw, head, nil
	}
	var object, metadata map[string]json.RawMessage
	if err := json.Unmarshal(r.Object.Raw, &object); err != nil {
		return nil, head, fmt.Errorf("cannot decode configuration: %w", err)
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil && object["metadata"] != nil {
		return nil, head, fmt.Errorf("cannot decode configuration: %w", err)
	}
	if metadata == nil { // the JSON value null
		metadata = map[string]json.RawMessage{}
	}
	set := func(key, value string) {
		metadata[key], _ = json.Marshal(value) // a string always encodes
	}
	if head.Metadata.Name == "" {
		name := r.Name
		if name == "" && head.Metadata.GenerateName != "" {
			name = head.Metadata.GenerateName + "00000" // same length as the generated suffix
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

// hasSameSpec reports whether both versions have the same spec, byte by byte except for whitespace.
// The API server encodes both in the same form. It returns false if a spec is missing or invalid.
func hasSameSpec(old, updated []byte) bool {
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

// formatProblems returns all problems in one line, with their number unless there is exactly one.
func formatProblems(faults []config.Problem) string {
	lines := make([]string, len(faults))
	for i, p := range faults {
		lines[i] = formatProblem(p)
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d errors: %s", len(lines), strings.Join(lines, "; "))
}

// formatProblem returns the field, if it is known, and the reason of a problem.
func formatProblem(p config.Problem) string {
	if p.Field == "" {
		return p.Reason
	}
	return p.Field + ": " + p.Reason
}

// statusDetails returns the errors as causes, with the object's kind and name. kubectl prints the
// details instead of the message, and names the object only from them.
func statusDetails(r *admissionv1.AdmissionRequest, faults []config.Problem) *metav1.StatusDetails {
	out := &metav1.StatusDetails{Name: r.Name, Group: r.Kind.Group, Kind: r.Kind.Kind}
	for _, p := range faults {
		out.Causes = append(
			out.Causes,
			metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: p.Field, Message: p.Reason},
		)
	}
	return out
}
