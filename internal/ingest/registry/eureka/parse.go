package eureka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The paths of the REST interface.
const (
	pathApps  = "/apps"
	pathDelta = "/apps/delta"
)

// answer is an answer to a request for all instances or for changes.
type answer struct {
	// hash counts the instances of the server by status: "DOWN_1_UP_2_".
	hash      string
	instances []instance
}

// instance is the part of a registered instance that configuration depends on.
type instance struct {
	App        string     `json:"app"`
	ID         string     `json:"instanceId"`
	HostName   string     `json:"hostName"`
	IP         string     `json:"ipAddr"`
	Status     string     `json:"status"`
	Port       port       `json:"port"`
	SecurePort port       `json:"securePort"`
	VIP        string     `json:"vipAddress"`
	SecureVIP  string     `json:"secureVipAddress"`
	DataCenter dataCenter `json:"dataCenterInfo"`
	Lease      lease      `json:"leaseInfo"`
	Metadata   textMap    `json:"metadata"`
	Action     string     `json:"actionType"`
}

// lease is the time that an instance stays registered without a heartbeat.
type lease struct {
	Seconds int `json:"durationInSecs"`
}

// dataCenter is the data center of an instance. Amazon's has metadata.
type dataCenter struct {
	Metadata textMap `json:"metadata"`
}

// actionDeleted is the action of a change that removes an instance.
const actionDeleted = "DELETED"

// key identifies an instance among all applications.
type key struct{ app, id string }

// key returns the key of an instance in the table: its application and its ID.
func (i *instance) key() key { return key{i.App, i.ID} }

// The limits of a lease, for servers and programs that declare another one or none.
const (
	defaultLease = 90 * time.Second
	maxLease     = 10 * time.Minute
)

// duration returns the time that an instance stays registered without a heartbeat: at most
// maxLease, and defaultLease if the registration has none.
func (l lease) duration() time.Duration {
	if l.Seconds <= 0 {
		return defaultLease
	}
	return min(time.Duration(min(l.Seconds, 3600))*time.Second, maxLease)
}

// parse reads an answer. It returns an error for the whole answer if that is malformed or has no
// applications, or has an instance without an application or an ID. Names of applications are
// converted to upper case. An instance that names none has the application that lists it. Without
// an ID, the host name is the ID.
func parse(body []byte) (answer, error) {
	var document struct {
		Applications *struct {
			Hash         string `json:"apps__hashcode"`
			Applications list[struct {
				Name      string         `json:"name"`
				Instances list[instance] `json:"instance"`
			}] `json:"application"`
		} `json:"applications"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return answer{}, fmt.Errorf("the answer is not JSON of Eureka: %w", err)
	}
	if document.Applications == nil {
		return answer{}, errors.New("the answer has no applications")
	}
	a := answer{hash: document.Applications.Hash}
	for _, application := range document.Applications.Applications {
		for _, i := range application.Instances {
			if i.App == "" {
				i.App = application.Name
			}
			if i.App = strings.ToUpper(i.App); i.ID == "" { // as servers that are older than instance IDs
				i.ID = i.HostName
			}
			if i.App == "" || i.ID == "" {
				return answer{}, errors.New("an instance has no application or no ID")
			}
			a.instances = append(a.instances, i)
		}
	}
	return a, nil
}

// list is a JSON list. Older servers write a list of one element as the element.
type list[T any] []T

// UnmarshalJSON reads a list, or one element as a list of it. null leaves l unchanged. JSON that T
// cannot have is an error.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]T)(l))
	}
	var one *T
	if err := json.Unmarshal(text, &one); err != nil || one == nil {
		return err
	}
	*l = list[T]{*one}
	return nil
}

// port is a port of an instance. Its number is 0 if it is disabled.
type port uint32

// UnmarshalJSON reads {"$": 8080, "@enabled": "true"}, in which each value may be a string. A port
// that is disabled or malformed is 0, without an error. A text of any other form is 0, too.
func (p *port) UnmarshalJSON(text []byte) error {
	var raw struct {
		Number  json.RawMessage `json:"$"`
		Enabled json.RawMessage `json:"@enabled"`
	}
	*p = 0
	if json.Unmarshal(text, &raw) != nil || strings.Trim(string(raw.Enabled), `"`) != "true" {
		return nil //nolint:nilerr // an instance without this port
	}
	var n uint16
	if json.Unmarshal(bytes.Trim(raw.Number, `"`), &n) == nil {
		*p = port(n)
	}
	return nil
}

// textMap is a JSON object. It has only the values that are texts, numbers or truth values.
type textMap map[string]string

// UnmarshalJSON reads the strings, numbers and booleans of an object, apart from "@class". Other
// values are skipped, and anything else than an object is nil, without an error.
func (m *textMap) UnmarshalJSON(text []byte) error {
	var raw map[string]any
	*m = nil
	if json.Unmarshal(text, &raw) != nil {
		return nil //nolint:nilerr // Java writes an empty map in other ways
	}
	for k, v := range raw {
		switch v.(type) {
		case string, float64, bool:
			if *m == nil {
				*m = textMap{}
			}
			(*m)[k] = fmt.Sprint(v)
		}
	}
	delete(*m, "@class")
	return nil
}
