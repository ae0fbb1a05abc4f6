package secret

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// fault is one defect of an object's data. An object with an Error is not used.
type fault struct {
	severity config.Severity
	key      string // in the object's data
	reason   string
}

// hasError reports whether any of the faults has the severity Error.
func hasError(faults []fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool { return f.severity == config.Error })
}

// dataOf returns the data of a Secret, or the text and binary data of a ConfigMap. It returns nil
// for other objects. A key of both maps of a ConfigMap has the binary value.
func dataOf(c *config.Config) map[string][]byte {
	switch o := c.Spec.(type) {
	case *corev1.Secret:
		return o.Data
	case *corev1.ConfigMap:
		data := make(map[string][]byte, len(o.Data)+len(o.BinaryData))
		for k, v := range o.Data {
			data[k] = []byte(v)
		}
		maps.Copy(data, o.BinaryData)
		return data
	default:
		return nil
	}
}

// row is a set of data keys under which an object may store a credential.
type row struct {
	needed []string
	extra  string // "" for none
}

// isComplete reports whether all needed keys exist and are not empty.
func (r row) isComplete(data map[string][]byte) bool {
	return !slices.ContainsFunc(r.needed, func(key string) bool { return len(data[key]) == 0 })
}

// isPresent reports whether at least one of the needed keys exists, even if it is empty.
func (r row) isPresent(data map[string][]byte) bool {
	return slices.ContainsFunc(r.needed, func(key string) bool { _, there := data[key]; return there })
}

// chooseRow returns the first of rows that is complete, without faults. If there is none, it
// returns the first with at least one needed key, or else the last one. Then it also returns an
// Error for each needed key that is missing or empty.
func chooseRow(data map[string][]byte, rows []row) (row, []fault) {
	i := slices.IndexFunc(rows, func(r row) bool { return r.isComplete(data) })
	if i >= 0 {
		return rows[i], nil
	}
	if i = slices.IndexFunc(rows, func(r row) bool { return r.isPresent(data) }); i < 0 {
		i = len(rows) - 1
	}
	var faults []fault
	for _, key := range rows[i].needed {
		if _, there := data[key]; !there {
			faults = append(faults, fault{config.Error, key, "is missing; " + describeKeys(data)})
		} else if len(data[key]) == 0 {
			faults = append(faults, fault{config.Error, key, "is empty"})
		}
	}
	return rows[i], faults
}

// describeKeys lists the first three keys of an object, for messages. It returns "there is a, b, c,
// others", or "there is no data".
func describeKeys(data map[string][]byte) string {
	const few = 3
	has := slices.Sorted(maps.Keys(data))
	switch {
	case len(has) == 0:
		return "there is no data"
	case len(has) > few:
		has = append(has[:few], "others")
	}
	return "there is " + strings.Join(has, ", ")
}
