"""A plugin of iotrial: a tunable, a load tool and a lint rule."""
