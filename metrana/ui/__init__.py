"""The local page: a server on loopback over the runs of one store, and the page's own static files.

The extra ``ui`` brings what it needs: Bokeh draws the charts (its JavaScript comes inside its Python package) and
brings Tornado, which serves; NumPy reads the points.
"""
