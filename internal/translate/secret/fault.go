package secret

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// fault is one thing that is wrong with the data of an object. With an Error among them it is not used.
type fault struct {
	severity config.Severity
	key      string // in the object's data
	reason   string
}

func refused(faults []fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool { return f.severity == config.Error })
}

// dataOf gives the data of a Secret or ConfigMap.
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

// row is the keys under which an object has what belongs together.
type row struct {
	needed []string
	extra  string // "" for none
}

// complete says that what is needed is there, with something in it.
func (r row) complete(data map[string][]byte) bool {
	return !slices.ContainsFunc(r.needed, func(key string) bool { return len(data[key]) == 0 })
}

// begun says that some of what is needed is there.
func (r row) begun(data map[string][]byte) bool {
	return slices.ContainsFunc(r.needed, func(key string) bool { _, there := data[key]; return there })
}

// choose gives the first row that is complete; or else the first that is begun, or the last one, and what is missing of it.
func choose(data map[string][]byte, rows []row) (row, []fault) {
	i := slices.IndexFunc(rows, func(r row) bool { return r.complete(data) })
	if i >= 0 {
		return rows[i], nil
	}
	if i = slices.IndexFunc(rows, func(r row) bool { return r.begun(data) }); i < 0 {
		i = len(rows) - 1
	}
	var faults []fault
	for _, key := range rows[i].needed {
		if _, there := data[key]; !there {
			faults = append(faults, fault{config.Error, key, "is missing; " + present(data)})
		} else if len(data[key]) == 0 {
			faults = append(faults, fault{config.Error, key, "is empty"})
		}
	}
	return rows[i], faults
}

// present names the first keys of an object.
func present(data map[string][]byte) string {
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
