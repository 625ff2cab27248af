"""The data database (PostGIS): its schemas, loading tables, giving them their public names, and its catalogue"""
