package podres

import (
	"fmt"

	corecache "github.com/paddock-project/paddock/internal/core/cache"
	"github.com/paddock-project/paddock/internal/core/machine"
	"github.com/paddock-project/paddock/internal/node/resctrl"
)

// check returns an error if the classes cannot be those of one machine: a server gives no way of a
// cache to two classes, and leaves some for the default class. Containers in groups that have the
// name of no class are not looked at.
func (c *Caches) check() error {
	rest := map[int]corecache.Share{}
	for _, s := range c.Rest {
		if _, twice := rest[s.Cache]; twice {
			return fmt.Errorf("the default class has two shares of cache %d", s.Cache)
		}
		if rest[s.Cache] = s; !inRange(s, c.Rules) {
			return fmt.Errorf("the default class has ways %s and %d%% of the memory bandwidth of cache %d, and the cache has %d ways", s.Ways, s.Bandwidth, s.Cache, c.Rules.Ways)
		}
	}
	classes := map[string]*ContainerClass{}
	for i := range c.Containers {
		of := &c.Containers[i]
		if len(of.Class) == 0 || !resctrl.IsOurs(of.Group) {
			continue
		}
		same, before := classes[of.Group]
		switch name := resctrl.ContainerName(of.UID, of.Container); {
		case of.Pool && of.Group != resctrl.PoolName(of.UID), !of.Pool && of.Group != name:
			return fmt.Errorf("%s has the group %s, which has the name of another one", of.id(), of.Group)
		case before && !same.Class.Equal(of.Class):
			return fmt.Errorf("%s and %s are in the group %s, and have different classes", same.id(), of.id(), of.Group)
		case before:
			continue
		}
		if err := of.checkAgainst(rest, classes, c.Rules); err != nil {
			return err
		}
		classes[of.Group] = of
	}
	return nil
}

// checkAgainst checks the class of a container against those of others and the default class.
func (of *ContainerClass) checkAgainst(rest map[int]corecache.Share, classes map[string]*ContainerClass, rules machine.Caches) error {
	for i, s := range of.Class {
		left, known := rest[s.Cache]
		switch {
		case i > 0 && of.Class[i-1].Cache >= s.Cache:
			return fmt.Errorf("the shares of %s are not in the order of the caches", of.id())
		case !inRange(s, rules):
			return fmt.Errorf("%s has ways %s and %d%% of the memory bandwidth of cache %d, and the cache has %d ways", of.id(), s.Ways, s.Bandwidth, s.Cache, rules.Ways)
		case known && s.Ways != 0 && left.Ways == 0:
			return fmt.Errorf("the default class has no way of cache %d", s.Cache)
		case s.Ways&left.Ways != 0:
			return fmt.Errorf("%s and the default class both have ways %s of cache %d", of.id(), s.Ways&left.Ways, s.Cache)
		}
		for _, other := range classes {
			if share, _ := other.Class.Share(s.Cache); share.Ways&s.Ways != 0 {
				return fmt.Errorf("%s and %s both have ways %s of cache %d", other.id(), of.id(), share.Ways&s.Ways, s.Cache)
			}
		}
	}
	return nil
}

func inRange(s corecache.Share, rules machine.Caches) bool {
	all := corecache.Run(0, min(max(0, rules.Ways), machine.MaxWays))
	return s.Cache >= 0 && s.Ways&^all == 0 && s.Bandwidth >= 0 && s.Bandwidth <= 100
}

func (of *ContainerClass) id() string { return of.Namespace + "/" + of.Pod + "/" + of.Container }

// decodeCaches reads and checks Caches. They are nil if the server divides none: its answer is then
// null.
func decodeCaches(text []byte) (*Caches, error) {
	c := &Caches{}
	err := c.UnmarshalJSON(text)
	if err == nil {
		err = c.check()
	}
	if err != nil || c.Rules.Classes < 2 {
		return nil, err
	}
	return c, nil
}
